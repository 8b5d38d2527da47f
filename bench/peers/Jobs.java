import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The jobs of the benchmarks in Java, a method each. Data and results are those of bench/workloads.
 *
 * <pre>Jobs job bootstrap application-id exactly_once|at_least_once threads state-dir in,in out [name=value ...]</pre>
 *
 * What follows are settings of Kafka Streams or of its clients; those that begin with "job." are the job's own. It prints a line for
 * each state (RUNNING is the one to wait for) and for a restore, and ends in order at the end of its standard input or at SIGTERM.
 *
 * JSON is handled as fast as it sensibly can be: a streaming parser that takes the fields it needs, stops when it has them and
 * builds no tree; results that hold only numbers are put together as text.
 */
public final class Jobs {
    private static final JsonFactory JSON = new JsonFactory();
    private static final Map<String, String> OPTIONS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Properties settings = settings(arguments);
        StreamsBuilder builder = new StreamsBuilder();
        say(arguments[0], builder, arguments[6].split(","), arguments[7]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch over = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setGlobalStateRestoreListener(new Restoring());
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == State.ERROR) {
                over.countDown();
            }
        });
        // an orderly end leaves the group: else the next start would wait until the session has timed out
        CloseOptions orderly = CloseOptions.timeout(Duration.ofSeconds(20))
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(orderly)));
        Thread watch = new Thread(() -> {
            awaitEndOfInput();
            over.countDown();
        });
        watch.setDaemon(true);
        watch.start();
        streams.start();
        if (OPTIONS.containsKey("http")) {
            serve(streams, Integer.parseInt(OPTIONS.get("http")));
        }
        over.await();
        System.exit(streams.state() == State.ERROR ? 1 : 0);
    }

    /** Answers GET /v1/stores/totals/keys/KEY: interactive queries behind the HTTP server of the JDK, and no more than that. */
    private static void serve(KafkaStreams streams, int port) throws IOException {
        System.setProperty("sun.net.httpserver.nodelay", "true"); // else an answer waits 40 ms for an acknowledgement
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/v1/stores/totals/keys/", exchange -> {
            String path = exchange.getRequestURI().getPath();
            int status = 503;
            byte[] body = {};
            try {
                ReadOnlyKeyValueStore<String, Total> store = streams.store(
                    StoreQueryParameters.fromNameAndType("totals", QueryableStoreTypes.<String, Total>keyValueStore()));
                Total found = store.get(path.substring(path.lastIndexOf('/') + 1));
                status = found == null ? 404 : 200;
                body = found == null ? body : Total.SERDE.serializer().serialize(null, found);
            } catch (InvalidStateStoreException restoring) {
                // 503: ask again
            }
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }

    private static void say(String job, StreamsBuilder builder, String[] in, String out) {
        switch (job) {
            case "stateless" -> stateless(builder, in[0], out);
            case "count_sum" -> countSum(builder, in, out);
            case "word_count" -> wordCount(builder, in[0], out);
            case "rekey_aggregate" -> rekeyAggregate(builder, in[0], out);
            case "tumbling" -> tumbling(builder, in[0], out);
            case "hopping" -> hopping(builder, in[0], out);
            case "session" -> session(builder, in[0], out);
            case "stream_table_join" -> streamTableJoin(builder, in[0], in[1], out);
            case "stream_stream_join" -> streamStreamJoin(builder, in[0], in[1], out);
            case "table_table_join" -> tableTableJoin(builder, in[0], in[1], out);
            case "foreign_key_join" -> foreignKeyJoin(builder, in[0], in[1], out);
            case "processor" -> processor(builder, in[0], out);
            case "lookup" -> lookup(builder, in[0], out);
            default -> throw new IllegalArgumentException("no such job: " + job);
        }
    }

    // the jobs

    private static void stateless(StreamsBuilder builder, String in, String out) {
        builder.stream(in, Consumed.with(Serdes.String(), reads(bytes -> fields(bytes, "order", "customer", "amount", "note"))))
            .filter((key, purchase) -> purchase.number(2) >= 20)
            .mapValues(purchase -> object(
                "order", purchase.number(0),
                "customer", purchase.text(1),
                "cents", purchase.number(2) * 100,
                "note", purchase.text(3)))
            .to(out, Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void countSum(StreamsBuilder builder, String[] in, String out) {
        Serde<Long> amounts = reads(bytes -> fields(bytes, "amount").number(0));
        builder.stream(Arrays.asList(in), Consumed.with(Serdes.String(), amounts))
            .groupByKey(Grouped.with(Serdes.String(), amounts))
            .aggregate(Total::none, (key, amount, total) -> total.plus(amount), totals())
            .toStream()
            .to(out, Produced.with(Serdes.String(), Total.SERDE));
    }

    private static void wordCount(StreamsBuilder builder, String in, String out) {
        builder.stream(in, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withKeySerde(Serdes.String()))
            .toStream()
            .to(out, Produced.with(Serdes.String(), Serdes.Long()));
    }

    private static void rekeyAggregate(StreamsBuilder builder, String in, String out) {
        record Purchase(String customer, long amount) {}

        // behind the re-key only the amount is needed
        Serde<Purchase> inner = serde(
            purchase -> ascii("{\"amount\":" + purchase.amount + "}"),
            bytes -> new Purchase(null, fields(bytes, "amount").number(0)));
        Serde<Purchase> outer = reads(bytes -> {
            Fields found = fields(bytes, "customer", "amount");
            return new Purchase(found.text(0), found.number(1));
        });
        builder.stream(in, Consumed.with(Serdes.String(), outer))
            .groupBy((key, purchase) -> purchase.customer, Grouped.with(Serdes.String(), inner))
            .aggregate(Total::none, (key, purchase, total) -> total.plus(purchase.amount), totals())
            .toStream()
            .to(out, Produced.with(Serdes.String(), Total.SERDE));
    }

    private static void tumbling(StreamsBuilder builder, String in, String out) {
        Duration size = Duration.ofMinutes(5);
        windowed(builder, in, out, size, TimeWindows.ofSizeWithNoGrace(size));
    }

    private static void hopping(StreamsBuilder builder, String in, String out) {
        Duration size = Duration.ofMinutes(5);
        windowed(builder, in, out, size, TimeWindows.ofSizeWithNoGrace(size).advanceBy(Duration.ofMinutes(1)));
    }

    private static void windowed(StreamsBuilder builder, String in, String out, Duration size, TimeWindows windows) {
        builder.stream(in, Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(windows)
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withKeySerde(Serdes.String()))
            .toStream()
            .to(out, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, size.toMillis()), Serdes.Long()));
    }

    private static void session(StreamsBuilder builder, String in, String out) {
        builder.stream(in, Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(1)))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("counts").withKeySerde(Serdes.String()))
            .toStream()
            .to(out, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
    }

    private static void streamTableJoin(StreamsBuilder builder, String purchased, String known, String out) {
        Serde<Fields> purchases = reads(bytes -> fields(bytes, "order", "amount"));
        KTable<String, String> customers = builder.table(known, Consumed.with(Serdes.String(), text("land")));
        builder.stream(purchased, Consumed.with(Serdes.String(), purchases))
            .join(
                customers,
                (purchase, land) -> object("order", purchase.number(0), "amount", purchase.number(1), "land", land),
                Joined.with(Serdes.String(), purchases, text("land")))
            .to(out, Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void streamStreamJoin(StreamsBuilder builder, String ordered, String paid, String out) {
        KStream<String, Long> orders = builder.stream(ordered, Consumed.with(Serdes.String(), number("amount")));
        KStream<String, Long> payments = builder.stream(paid, Consumed.with(Serdes.String(), number("paid")));
        orders.join(
                payments,
                (amount, payment) -> ascii("{\"amount\":" + amount + ",\"paid\":" + payment + "}"),
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(10)),
                StreamJoined.with(Serdes.String(), number("amount"), number("paid")))
            .to(out, Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void tableTableJoin(StreamsBuilder builder, String known, String scored, String out) {
        KTable<String, String> customers = builder.table(known, Consumed.with(Serdes.String(), text("land")));
        KTable<String, Long> scores = builder.table(scored, Consumed.with(Serdes.String(), number("score")));
        customers.join(scores, (land, score) -> object("land", land, "score", score))
            .toStream()
            .to(out, Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    private static void foreignKeyJoin(StreamsBuilder builder, String ordered, String known, String out) {
        record Order(String customer, long amount) {}

        Serde<Order> orders = serde(
            order -> object("customer", order.customer, "amount", order.amount),
            bytes -> {
                Fields found = fields(bytes, "customer", "amount");
                return new Order(found.text(0), found.number(1));
            });
        KTable<String, Order> left = builder.table(ordered, Consumed.with(Serdes.String(), orders));
        KTable<String, String> right = builder.table(known, Consumed.with(Serdes.String(), text("land")));
        left.join(
                right,
                Order::customer,
                (order, land) -> object("amount", order.amount, "land", land),
                Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("joined")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(Serdes.ByteArray()))
            .toStream()
            .to(out, Produced.with(Serdes.String(), Serdes.ByteArray()));
    }

    /** Every purchase waits for a lookup that blocks. What a program can do about it is more threads, up to the partitions. */
    private static void lookup(StreamsBuilder builder, String in, String out) {
        long wait = Long.parseLong(OPTIONS.get("wait"));
        builder.stream(in, Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues((key, value) -> {
                try {
                    Thread.sleep(wait);
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
                return value.substring(0, value.length() - 1) + ",\"letters\":" + key.length() + "}";
            })
            .to(out, Produced.with(Serdes.String(), Serdes.String()));
    }

    private static void processor(StreamsBuilder builder, String in, String out) {
        Serde<Long> amounts = reads(bytes -> fields(bytes, "amount").number(0));
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("totals"), Serdes.String(), Total.SERDE));
        builder.stream(in, Consumed.with(Serdes.String(), amounts))
            .process(RunningTotal::new, "totals")
            .to(out, Produced.with(Serdes.String(), Total.SERDE));
    }

    static final class RunningTotal implements Processor<String, Long, String, Total> {
        private ProcessorContext<String, Total> context;
        private KeyValueStore<String, Total> totals;

        @Override
        public void init(ProcessorContext<String, Total> context) {
            this.context = context;
            totals = context.getStateStore("totals");
        }

        @Override
        public void process(Record<String, Long> record) {
            Total known = totals.get(record.key());
            Total total = (known == null ? Total.none() : known).plus(record.value());
            totals.put(record.key(), total);
            context.forward(record.withValue(total));
        }
    }

    // totals

    record Total(long count, long sum) {
        static final Serde<Total> SERDE = serde(
            total -> ascii("{\"count\":" + total.count + ",\"sum\":" + total.sum + "}"),
            bytes -> {
                Fields found = fields(bytes, "count", "sum");
                return new Total(found.number(0), found.number(1));
            });

        static Total none() {
            return new Total(0, 0);
        }

        Total plus(long amount) {
            return new Total(count + 1, sum + amount);
        }
    }

    private static Materialized<String, Total, KeyValueStore<Bytes, byte[]>> totals() {
        return Materialized.<String, Total, KeyValueStore<Bytes, byte[]>>as("totals")
            .withKeySerde(Serdes.String())
            .withValueSerde(Total.SERDE);
    }

    // JSON

    /** Fields of a flat object, by their position in the list that was asked for. */
    static final class Fields {
        private final String[] texts;
        private final long[] numbers;

        Fields(int count) {
            texts = new String[count];
            numbers = new long[count];
        }

        long number(int position) {
            return numbers[position];
        }

        String text(int position) {
            return texts[position];
        }
    }

    private static Fields fields(byte[] bytes, String... names) {
        Fields found = new Fields(names.length);
        int missing = names.length;
        try (JsonParser parser = JSON.createParser(bytes)) {
            parser.nextToken();
            while (missing > 0 && parser.nextToken() == JsonToken.FIELD_NAME) {
                int position = position(names, parser.currentName());
                JsonToken token = parser.nextToken();
                if (position < 0) {
                    parser.skipChildren();
                } else if (token == JsonToken.VALUE_STRING) {
                    found.texts[position] = parser.getText();
                    missing--;
                } else {
                    found.numbers[position] = parser.getLongValue();
                    missing--;
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

    private static int position(String[] names, String name) {
        for (int i = 0; i < names.length; i++) {
            if (names[i].equals(name)) {
                return i;
            }
        }
        return -1;
    }

    /** An object of names and values, which are numbers or texts. */
    private static byte[] object(Object... pairs) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
        try (JsonGenerator generator = JSON.createGenerator(bytes)) {
            generator.writeStartObject();
            for (int i = 0; i < pairs.length; i += 2) {
                generator.writeFieldName((String) pairs[i]);
                if (pairs[i + 1] instanceof Long number) {
                    generator.writeNumber(number);
                } else {
                    generator.writeString((String) pairs[i + 1]);
                }
            }
            generator.writeEndObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    interface Writer<T> {
        byte[] write(T value);
    }

    interface Reader<T> {
        T read(byte[] bytes);
    }

    private static <T> Serde<T> serde(Writer<T> writer, Reader<T> reader) {
        return Serdes.serdeFrom(
            (topic, value) -> value == null ? null : writer.write(value),
            (topic, bytes) -> bytes == null ? null : reader.read(bytes));
    }

    /** A serde of values that are never written. */
    private static <T> Serde<T> reads(Reader<T> reader) {
        return serde(
            value -> {
                throw new IllegalStateException("this value is not to be written");
            },
            reader);
    }

    /** A serde of objects of which one text is needed. */
    private static Serde<String> text(String field) {
        return serde(value -> object(field, value), bytes -> fields(bytes, field).text(0));
    }

    /** A serde of objects of which one number is needed. */
    private static Serde<Long> number(String field) {
        return serde(value -> ascii("{\"" + field + "\":" + value + "}"), bytes -> fields(bytes, field).number(0));
    }

    // the program

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[2]);
        settings.put(
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            arguments[3].equals("exactly_once") ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[4]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (String argument : Arrays.asList(arguments).subList(8, arguments.length)) {
            String[] setting = argument.split("=", 2);
            if (setting[0].startsWith("job.")) {
                OPTIONS.put(setting[0].substring(4), setting[1]);
            } else {
                settings.put(setting[0], setting[1]);
            }
        }
        return settings;
    }

    /** Tells how many rows were restored so far, whenever a partition is done, and when the first one began. */
    private static final class Restoring implements StateRestoreListener {
        private final AtomicLong rows = new AtomicLong();
        private final AtomicLong began = new AtomicLong();

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            if (began.getAndIncrement() == 0) {
                System.out.println("RESTORING");
            }
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
            rows.addAndGet(count);
        }

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            System.out.println("RESTORED " + rows.get());
        }
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
