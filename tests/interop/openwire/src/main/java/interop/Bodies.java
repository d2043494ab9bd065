package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.command.ActiveMQBlobMessage;
import org.apache.activemq.command.ActiveMQMessage;

/** Every body kind, with headers and properties, small, large and compressed. */
public final class Bodies {
    private static final String ODD = "ü € \u0000 \ud83d\ude00 \"";

    public void allKinds(Site site) throws Exception {
        exchange(site, "", 0);
    }

    public void compressed(Site site) throws Exception {
        exchange(site, "?jms.useCompression=true", 0);
    }

    /** Beyond every chunk, page and window. */
    public void large(Site site) throws Exception {
        exchange(site, "", 3 << 20);
    }

    public void largeCompressed(Site site) throws Exception {
        exchange(site, "?jms.useCompression=true", 3 << 20);
    }

    private void exchange(Site site, String options, int padding) throws Exception {
        ActiveMQConnection connection = site.connect(
                options + (options.isEmpty() ? "?" : "&") + "jms.trustAllPackages=true");
        Session session = Site.auto(connection);
        MessageProducer producer = session.createProducer(site.queue(session));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        String pad = "x".repeat(padding);
        for (Message message : messages(session, pad)) {
            producer.send(message);
            Message got = consumer.receive(4 * Site.ARRIVES_MS);
            site.see(message.getClass().getSimpleName(), got == null ? null : content(got, pad));
            site.see(message.getClass().getSimpleName() + " compressed", ((ActiveMQMessage) got).isCompressed());
        }
    }

    private static List<Message> messages(Session session, String pad) throws Exception {
        List<Message> messages = new ArrayList<>();
        messages.add(session.createMessage());
        messages.add(session.createTextMessage(ODD + pad));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeInt(-7);
        bytes.writeUTF(ODD);
        bytes.writeBytes(pad.getBytes("US-ASCII"));
        messages.add(bytes);
        MapMessage map = session.createMapMessage();
        map.setBoolean("boolean", true);
        map.setByte("byte", (byte) -1);
        map.setChar("char", 'ü');
        map.setDouble("double", 2.5);
        map.setLong("long", Long.MIN_VALUE);
        map.setString("string", ODD + pad);
        map.setBytes("bytes", new byte[] {0, -1});
        messages.add(map);
        StreamMessage stream = session.createStreamMessage();
        stream.writeShort((short) 3);
        stream.writeFloat(1.5f);
        stream.writeObject(null);
        stream.writeString(ODD + pad);
        messages.add(stream);
        messages.add(session.createObjectMessage(new ArrayList<>(List.of("a", 1L, pad))));
        return messages;
    }

    private static Object content(Message message, String pad) throws Exception {
        List<Object> parts = new ArrayList<>();
        if (message instanceof TextMessage text) {
            parts.add(text.getText());
        } else if (message instanceof BytesMessage bytes) {
            parts.addAll(List.of(bytes.getBodyLength(), bytes.readInt(), bytes.readUTF()));
        } else if (message instanceof MapMessage map) {
            Map<String, Object> sorted = new TreeMap<>();
            for (Object key : Collections.list(map.getMapNames())) {
                Object value = map.getObject((String) key);
                sorted.put((String) key, value instanceof byte[] array ? array.length : value);
            }
            parts.add(sorted);
        } else if (message instanceof StreamMessage stream) {
            for (int index = 0; index < 4; index++) {
                parts.add(stream.readObject());
            }
        } else if (message instanceof ObjectMessage object) {
            parts.addAll((List<?>) object.getObject());
        }
        List<Object> shown = new ArrayList<>();
        parts.forEach(part -> shown.add(shorten(part, pad)));
        return shown;
    }

    private static Object shorten(Object part, String pad) {
        if (part instanceof Map<?, ?> map) {
            Map<String, Object> shown = new LinkedHashMap<>();
            map.forEach((key, value) -> shown.put(String.valueOf(key), shorten(value, pad)));
            return shown;
        }
        boolean json = part == null || part instanceof Number || part instanceof Boolean;
        return json || pad.isEmpty() ? part : String.valueOf(part).replace(pad, "<pad>");
    }

    /** A body that is elsewhere: the message names a URL. */
    public void blob(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        ActiveMQBlobMessage blob = new ActiveMQBlobMessage();
        blob.setURL(new java.net.URL("http://127.0.0.1/blob"));
        blob.setMimeType("text/plain");
        site.see("send", Site.outcome(() -> session.createProducer(site.queue(session)).send(blob)));
        Message got = session.createConsumer(site.queue(session)).receive(2 * Site.QUIET_MS);
        site.see("received", got instanceof ActiveMQBlobMessage body ? body.getURL() + " " + body.getMimeType() : null);
    }

    /** Maps and lists inside of a map: more than JMS asks for. */
    public void nestedMap(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MapMessage map = session.createMapMessage();
        map.setObject("nested", Map.of("list", List.of(1, "two")));
        site.see("send", Site.outcome(() -> session.createProducer(site.queue(session)).send(map)));
        MapMessage got = (MapMessage) session.createConsumer(site.queue(session)).receive(2 * Site.QUIET_MS);
        site.see("received", got == null ? null : got.getObject("nested"));
    }

    /** A message without a body: null content comes back as what the client makes of it. */
    public void empty(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(site.queue(session));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        producer.send(session.createTextMessage());
        site.see("null text", Site.next(consumer));
        producer.send(session.createTextMessage(""));
        site.see("empty text", Site.next(consumer));
        producer.send(session.createBytesMessage());
        site.see("bytes", ((BytesMessage) consumer.receive(Site.ARRIVES_MS)).getBodyLength());
        producer.send(session.createMapMessage());
        site.see("map", ((MapMessage) consumer.receive(Site.ARRIVES_MS)).getMapNames().hasMoreElements());
        producer.send(session.createObjectMessage());
        site.see("object", ((ObjectMessage) consumer.receive(Site.ARRIVES_MS)).getObject());
    }

    public void headers(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Destination replies = session.createTopic(site.name("replies"));
        MessageProducer producer = session.createProducer(site.queue(session));
        TextMessage message = session.createTextMessage("m");
        message.setJMSCorrelationID("c-1");
        message.setJMSReplyTo(replies);
        message.setJMSType("kind");
        producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 60_000);
        Message got = consumer.receive(Site.ARRIVES_MS);

        site.see("id kept", got.getJMSMessageID().equals(message.getJMSMessageID()));
        site.see("timestamp kept", got.getJMSTimestamp() == message.getJMSTimestamp());
        site.see("expiration kept", got.getJMSExpiration() == message.getJMSExpiration());
        site.see("expiration set", got.getJMSExpiration() - got.getJMSTimestamp());
        site.see("correlation", got.getJMSCorrelationID());
        site.see("reply to", got.getJMSReplyTo());
        site.see("destination", got.getJMSDestination());
        site.see("type", got.getJMSType());
        site.see("priority", got.getJMSPriority());
        site.see("delivery mode", got.getJMSDeliveryMode());
        site.see("redelivered", got.getJMSRedelivered());
        site.see("delivery count", got.getIntProperty("JMSXDeliveryCount"));
        site.see("user", got.getStringProperty("JMSXUserID"));
        ActiveMQMessage command = (ActiveMQMessage) got;
        site.see("broker in time set", command.getBrokerInTime() > 0);
        site.see("broker out time set", command.getBrokerOutTime() > 0);
        site.see("original destination", command.getOriginalDestination());
        site.see("broker path set", command.getBrokerPath() != null);
    }

    public void properties(Site site) throws Exception {
        Session session = Site.auto(site.connect("?jms.nestedMapAndListEnabled=true"));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Message message = session.createMessage();
        message.setBooleanProperty("boolean", true);
        message.setByteProperty("byte", (byte) 1);
        message.setShortProperty("short", (short) 2);
        message.setIntProperty("int", 3);
        message.setLongProperty("long", 4L);
        message.setFloatProperty("float", 5.5f);
        message.setDoubleProperty("double", 6.5);
        message.setStringProperty("string", ODD);
        message.setStringProperty("big", "y".repeat(10_000));
        message.setObjectProperty("null", null);
        message.setObjectProperty("map", Map.of("list", List.of(1, "two")));
        session.createProducer(site.queue(session)).send(message);
        Message got = consumer.receive(Site.ARRIVES_MS);

        for (Object key : Collections.list(message.getPropertyNames())) {
            Object value = got.getObjectProperty((String) key);
            String type = value == null ? "null" : value.getClass().getSimpleName();
            String text = String.valueOf(value);
            String kind = type.replaceAll(".*Map.*", "Map");
            site.see((String) key, text.length() > 1000 ? text.length() : List.of(kind, text));
        }
        List<String> added = new ArrayList<>();
        for (Object key : Collections.list(got.getPropertyNames())) {
            if (!message.propertyExists((String) key)) {
                added.add((String) key);
            }
        }
        Collections.sort(added);
        site.see("added by the broker", added);
    }
}
