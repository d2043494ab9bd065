package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * The half of a conversation with clients of other protocols.
 *
 * <p>It sends a message of each kind to the queue `sent` and the topic `sent.all` and prints `sent`, then sends a request
 * to the queue `requests`, and prints what comes: the reply, and messages from the queue `crossing`, the topic `news.today` and the
 * queue of a virtual topic. Arguments: the URL, and the number of messages.
 */
public final class Crossing {
    private static final long TIMEOUT_MS = 120_000;

    private Crossing() {}

    public static void main(String[] arguments) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
        factory.setTrustAllPackages(true);
        Connection connection = factory.createConnection();
        connection.start();
        Session session = Site.auto(connection);
        List<Destination> sources = List.of(
                session.createQueue("crossing"),
                session.createTopic("news.today"),
                session.createQueue("Consumer.A.VT.orders"));
        List<MessageConsumer> consumers = new ArrayList<>();
        for (Destination source : sources) {
            consumers.add(session.createConsumer(source));
        }
        MessageProducer producer = session.createProducer(session.createQueue("sent,topic://sent.all"));
        for (Message message : messages(session)) {
            producer.send(message);
        }
        System.out.println("sent");
        System.out.println(Json.text(Map.of("reply", reply(session))));
        int left = Integer.parseInt(arguments[1]);
        while (left > 0) {
            for (int index = 0; index < sources.size(); index++) {
                Message message = consumers.get(index).receive(20);
                if (message != null) {
                    System.out.println(Json.text(seen(message)));
                    left--;
                }
            }
        }
        connection.close();
    }

    private static String reply(Session session) throws Exception {
        TemporaryQueue replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        TextMessage request = session.createTextMessage("request");
        request.setJMSReplyTo(replies);
        request.setJMSCorrelationID("r-1");
        session.createProducer(session.createQueue("requests")).send(request);
        Message reply = consumer.receive(TIMEOUT_MS);
        return reply == null ? "none" : reply.getJMSCorrelationID() + " " + Site.text(reply);
    }

    private static List<Message> messages(Session session) throws Exception {
        List<Message> messages = new ArrayList<>();
        messages.add(session.createMessage());
        messages.add(session.createTextMessage("grün \ud83d\ude00"));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, -1});
        messages.add(bytes);
        MapMessage map = session.createMapMessage();
        map.setBoolean("yes", true);
        map.setInt("count", 5);
        map.setLong("long", 1L << 40);
        map.setDouble("ratio", 2.5);
        map.setString("name", "ü");
        messages.add(map);
        StreamMessage stream = session.createStreamMessage();
        stream.writeShort((short) 3);
        stream.writeString("two");
        stream.writeBoolean(false);
        messages.add(stream);
        messages.add(session.createObjectMessage(new ArrayList<>(List.of("a", 1L))));
        int number = 0;
        for (Message message : messages) {
            message.setJMSCorrelationID("c-" + number++);
            message.setJMSType("kind");
            message.setJMSReplyTo(session.createQueue("replies"));
            message.setBooleanProperty("boolean", true);
            message.setByteProperty("byte", (byte) -1);
            message.setShortProperty("short", (short) 2);
            message.setIntProperty("int", 3);
            message.setLongProperty("long", 1L << 40);
            message.setFloatProperty("float", 5.5f);
            message.setDoubleProperty("double", 6.5);
            message.setStringProperty("string", "ü");
            message.setStringProperty("JMSXGroupID", "g");
        }
        return messages;
    }

    /** What an application sees of a message. */
    private static Map<String, Object> seen(Message message) throws Exception {
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("from", String.valueOf(message.getJMSDestination()));
        seen.put("correlation", message.getJMSCorrelationID());
        seen.put("type", message.getJMSType());
        seen.put("reply to", message.getJMSReplyTo() == null ? null : String.valueOf(message.getJMSReplyTo()));
        seen.put("priority", message.getJMSPriority());
        Map<String, Object> properties = new TreeMap<>();
        for (Object key : Collections.list(message.getPropertyNames())) {
            String name = (String) key;
            if (!name.startsWith("JMS")) {
                properties.put(name, typed(message.getObjectProperty(name)));
            }
        }
        seen.put("properties", properties);
        List<Object> body = new ArrayList<>();
        String kind = "message";
        if (message instanceof TextMessage text) {
            kind = "text";
            body.add(text.getText());
        } else if (message instanceof BytesMessage bytes) {
            kind = "bytes";
            for (long left = bytes.getBodyLength(); left > 0; left--) {
                body.add(bytes.readUnsignedByte());
            }
        } else if (message instanceof MapMessage map) {
            kind = "map";
            Map<String, Object> entries = new TreeMap<>();
            for (Object key : Collections.list(map.getMapNames())) {
                entries.put((String) key, typed(map.getObject((String) key)));
            }
            body.add(entries);
        } else if (message instanceof StreamMessage stream) {
            kind = "stream";
            for (int count = 0; count < 3; count++) {
                body.add(typed(stream.readObject()));
            }
        } else if (message instanceof ObjectMessage object) {
            kind = "object";
            body.addAll((List<?>) object.getObject());
        }
        seen.put("kind", kind);
        seen.put("body", body);
        return seen;
    }

    private static String typed(Object value) {
        return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
    }
}
