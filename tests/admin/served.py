"""What is served in these tests."""

from penstock import Serdes, StreamsBuilder

TOKEN = "open-sesame-4711"


def words() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("lines", value=Serdes.string).flat_map_values(str.split)
    stream.group_by(lambda _, word: word, value=Serdes.string).count(store="counts").to_stream().to("word-counts")
    return builder
