import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The lookup job in Java: every purchase waits for a lookup that blocks, and goes on with its answer.
 *
 * <pre>Lookup bootstrap application-id in out exactly_once_v2|at_least_once threads state-dir lookup-ms [name=value ...]</pre>
 *
 * It prints a line for each state (RUNNING is the one to wait for) and ends in order at the end of its standard input or at
 * SIGTERM. What a program of Kafka Streams can do about the wait is what is done here: more threads, up to the partitions.
 */
public final class Lookup {
    public static void main(String[] arguments) throws Exception {
        long wait = Long.parseLong(arguments[7]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues((key, value) -> enriched(key, value, wait))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(arguments));
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

    private static String enriched(String key, String value, long wait) {
        try {
            Thread.sleep(wait);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        return value.substring(0, value.length() - 1) + ",\"letters\":" + key.length() + "}";
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[5]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[6]);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (int i = 8; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        return settings;
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
