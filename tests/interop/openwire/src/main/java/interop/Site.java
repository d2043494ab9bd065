package interop;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** What one scenario may use: the broker's URL, names of its own, and a record of what it saw. */
final class Site implements AutoCloseable {
    /** How long something expected may take, in milliseconds. */
    static final long ARRIVES_MS = 5_000;
    /** How long to look for what should not come: every such wait is paid in full. */
    static final long QUIET_MS = 600;

    static final String USER = "admin";
    static final String PASSWORD = "secret";

    final String scenario;
    final String url;
    private final Map<String, Object> seen = new LinkedHashMap<>();
    private final ConcurrentLinkedQueue<Connection> opened = new ConcurrentLinkedQueue<>();
    private String failure;

    Site(String scenario, String url) {
        this.scenario = scenario;
        this.url = url;
    }

    /** Something that a broker or client may refuse. */
    interface Attempt {
        void run() throws Exception;
    }

    /** A destination name that no other scenario uses. A pair before and after a restart shares its names. */
    String name(String part) {
        return base() + "." + part;
    }

    private String base() {
        return scenario.replaceAll("(Before|After)$", "");
    }

    ActiveMQConnectionFactory factory(String options) {
        return new ActiveMQConnectionFactory(USER, PASSWORD, url + options);
    }

    /** A started connection, closed after the scenario. */
    ActiveMQConnection connect() throws JMSException {
        return connect("");
    }

    /** A started connection of a factory with options, such as `?jms.useCompression=true`. */
    ActiveMQConnection connect(String options) throws JMSException {
        return start((ActiveMQConnection) factory(options).createConnection());
    }

    ActiveMQConnection start(ActiveMQConnection connection) throws JMSException {
        opened.add(connection);
        connection.start();
        return connection;
    }

    /** Note one observation; names of this scenario are shortened to `~`. */
    synchronized void see(String what, Object value) {
        seen.put((String) plain(what), plain(value));
    }

    private Object plain(Object value) {
        if (value instanceof List<?> list) {
            return list.stream().map(this::plain).collect(Collectors.toCollection(ArrayList::new));
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> plain = new LinkedHashMap<>();
            map.forEach((key, item) -> plain.put((String) plain(key), plain(item)));
            return plain;
        }
        boolean json = value == null || value instanceof Number || value instanceof Boolean;
        return json ? value : String.valueOf(value).replace(base(), "~");
    }

    /** The simple class name of what an attempt throws, or `accepted`. */
    static String outcome(Attempt attempt) {
        try {
            attempt.run();
            return "accepted";
        } catch (Exception refused) {
            return refused.getClass().getSimpleName();
        }
    }

    static MessageProducer send(Session session, javax.jms.Destination to, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(to);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        return producer;
    }

    static String text(Message message) throws JMSException {
        return message == null ? null : ((TextMessage) message).getText();
    }

    /** The next message's text; null if none comes. */
    static String next(MessageConsumer consumer) throws JMSException {
        return text(consumer.receive(ARRIVES_MS));
    }

    /** Texts of the next messages: at most so many, fewer when no more come. */
    static List<String> take(MessageConsumer consumer, int number) throws JMSException {
        List<String> texts = new ArrayList<>();
        while (texts.size() < number) {
            Message message = consumer.receive(ARRIVES_MS);
            if (message == null) {
                break;
            }
            texts.add(text(message));
        }
        return texts;
    }

    /** Texts of all that comes, until nothing comes for a while. */
    static List<String> rest(MessageConsumer consumer) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Message m = consumer.receive(QUIET_MS); m != null; m = consumer.receive(QUIET_MS)) {
            texts.add(text(m));
        }
        return texts;
    }

    /** Texts of a queue's messages, taken by a connection of its own. */
    List<String> left(String queue) throws JMSException {
        Connection connection = connect();
        try {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            return rest(session.createConsumer(session.createQueue(queue)));
        } finally {
            connection.close();
        }
    }

    /** Wait until something is so; false when it is not so in time. */
    static boolean becomes(BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + ARRIVES_MS * 1_000_000;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    static Session auto(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static Session transacted(Connection connection) throws JMSException {
        return connection.createSession(true, Session.SESSION_TRANSACTED);
    }

    Queue queue(Session session) throws JMSException {
        return session.createQueue(name("queue"));
    }

    Topic topic(Session session) throws JMSException {
        return session.createTopic(name("topic"));
    }

    synchronized void fail(Throwable cause) {
        StringWriter trace = new StringWriter();
        cause.printStackTrace(new PrintWriter(trace));
        failure = plain(trace.toString()).toString();
    }

    synchronized String report() {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", base());
        line.put("seen", seen);
        if (failure != null) {
            line.put("failed", failure);
        }
        return Json.text(line);
    }

    @Override
    public void close() {
        for (Connection connection : opened) {
            try {
                connection.close();
            } catch (JMSException alreadyBroken) {
                // Some scenarios break their connections.
            }
        }
    }
}
