"""Word count: the first application.

With a broker (``penstock dev``) and its topic (``penstock topics create lines --partitions 4``)::

    penstock run examples/word_count.py:app

or run this file. ``word_count_in_a_test.py`` runs the same topology without a broker.
"""

from penstock import App, Serdes, StreamsBuilder

builder = StreamsBuilder()
(
    builder.stream("lines", value=Serdes.string)
    .flat_map_values(str.split)
    .group_by(lambda _, word: word)
    .count(store="counts")
    .to_stream()
    .to("word-counts")
)

app = App(builder, application_id="word-count")  # bootstrap_servers="localhost:9092"

if __name__ == "__main__":
    app.run()
