import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The count-and-sum job in Java: how many purchases each key has and what they come to, JSON in, JSON out.
 *
 * <pre>CountSum bootstrap application-id in out exactly_once_v2|at_least_once threads state-dir [name=value ...]</pre>
 *
 * What follows are settings of Kafka Streams or of its clients. It prints a line for each state (RUNNING is the one to wait
 * for) and ends in order at the end of its standard input or at SIGTERM.
 *
 * JSON is handled as fast as it sensibly can be: a streaming parser that takes the fields it needs and builds no tree,
 * and results that are put together as text.
 */
public final class CountSum {
    private static final JsonFactory JSON = new JsonFactory();

    record Purchase(long amount) {}

    record Total(long count, long sum) {}

    public static void main(String[] arguments) throws Exception {
        KafkaStreams streams = new KafkaStreams(topology(arguments[2], arguments[3]).build(), settings(arguments));
        CountDownLatch over = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == State.ERROR) {
                over.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        Thread watch = new Thread(() -> {
            awaitEndOfInput();
            over.countDown();
        });
        watch.setDaemon(true);
        watch.start();
        streams.start();
        over.await();
        System.exit(streams.state() == State.ERROR ? 1 : 0);
    }

    private static StreamsBuilder topology(String in, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        Serde<Purchase> purchases = Serdes.serdeFrom((topic, value) -> null, (topic, bytes) -> purchase(bytes));
        Serde<Total> totals = Serdes.serdeFrom((topic, total) -> write(total), (topic, bytes) -> total(bytes));
        builder.stream(in, Consumed.with(Serdes.String(), purchases))
            .groupByKey(Grouped.with(Serdes.String(), purchases))
            .aggregate(
                () -> new Total(0, 0),
                (key, purchase, total) -> new Total(total.count + 1, total.sum + purchase.amount),
                Materialized.<String, Total, KeyValueStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(totals))
            .toStream()
            .to(out, Produced.with(Serdes.String(), totals));
        return builder;
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[5]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[6]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (int i = 7; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        return settings;
    }

    private static Purchase purchase(byte[] bytes) {
        return bytes == null ? null : new Purchase(numbers(bytes, "amount", null)[0]);
    }

    private static Total total(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        long[] found = numbers(bytes, "count", "sum");
        return new Total(found[0], found[1]);
    }

    private static byte[] write(Total total) {
        return total == null
            ? null
            : ("{\"count\":" + total.count + ",\"sum\":" + total.sum + "}").getBytes(StandardCharsets.ISO_8859_1);
    }

    /** The numbers of one or two fields of a flat object, in that order; stops reading when it has them. */
    private static long[] numbers(byte[] bytes, String first, String second) {
        long[] found = new long[2];
        int missing = second == null ? 1 : 2;
        try (JsonParser parser = JSON.createParser(bytes)) {
            parser.nextToken();
            while (missing > 0 && parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                if (name.equals(first)) {
                    found[0] = parser.getLongValue();
                    missing--;
                } else if (name.equals(second)) {
                    found[1] = parser.getLongValue();
                    missing--;
                } else {
                    parser.skipChildren();
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (missing > 0) {
            throw new IllegalArgumentException("a field is missing: " + new String(bytes, StandardCharsets.UTF_8));
        }
        return found;
    }

    private static void awaitEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // what is said does not matter
            }
        } catch (IOException error) {
            // a broken pipe is an end, too
        }
    }
}
