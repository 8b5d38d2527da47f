"""Internal topics have the names that Kafka Streams gives them, and settings under which nothing is lost."""

import pytest

from penstock.errors import TopicError
from penstock.log.base import TopicSpec
from penstock.log.topics import DAY_MS, changelog_topic, check_configs, check_partitions, epochs_topic


def test_the_changelog_of_a_table_is_compacted_and_has_a_partition_per_shard():
    spec = changelog_topic("shop", "counts", shards=16, replication=3)
    assert (spec.name, spec.partitions, spec.replication) == ("shop-counts-changelog", 16, 3)
    assert spec.configs == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


def test_the_changelog_of_windows_may_be_cut_but_no_broker_does_so_by_its_clock():
    configs = changelog_topic("shop", "hourly", shards=4, windowed=True).configs
    assert configs["cleanup.policy"] == "compact,delete"
    assert configs["retention.ms"] == "-1"


def test_versions_are_not_compacted_while_they_can_be_asked_for():
    configs = changelog_topic("shop", "prices", shards=4, history_ms=1000).configs
    assert configs["cleanup.policy"] == "compact"
    assert configs["min.compaction.lag.ms"] == str(1000 + DAY_MS)
    assert configs["segment.ms"] == str(2**63 - 1)


def test_settings_of_the_user_win():
    configs = changelog_topic("a", "b", shards=1, windowed=True, configs=[("retention.ms", "9"), ("x", "y")]).configs
    assert (configs["retention.ms"], configs["x"]) == ("9", "y")


def test_epochs_are_in_one_compacted_partition():
    spec = epochs_topic("shop")
    assert (spec.name, spec.partitions, spec.configs["cleanup.policy"]) == ("shop-epochs", 1, "compact")


def test_partitions_must_agree_unless_they_are_left_to_the_cluster():
    check_partitions(TopicSpec("t", 4), 4)
    check_partitions(TopicSpec("t"), 7)
    with pytest.raises(TopicError, match=r"'t' has 8 partitions, but must have 4.*delete the topic"):
        check_partitions(TopicSpec("t", 4), 8)


@pytest.mark.parametrize(
    ("name", "wanted", "found", "good"),
    [
        ("cleanup.policy", "compact,delete", "delete, compact", True),
        ("cleanup.policy", "compact,delete", "compact", False),
        ("retention.ms", "10", "11", True),
        ("retention.ms", "10", "9", False),
        ("retention.ms", "10", "-1", True),
        ("retention.ms", "-1", "10", False),
        ("retention.ms", "-1", "-1", True),
        ("segment.bytes", "10", "9", True),
    ],
)
def test_settings_on_which_correctness_rests_must_agree(name, wanted, found, good):
    if good:
        check_configs(TopicSpec("t", 1, {name: wanted}), {name: found})
    else:
        with pytest.raises(TopicError, match=rf"{name} is '{found}', but must be '{wanted}'.*topics alter t --config"):
            check_configs(TopicSpec("t", 1, {name: wanted}), {name: found})
