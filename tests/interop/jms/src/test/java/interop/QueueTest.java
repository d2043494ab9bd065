package interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Point to point. */
class QueueTest {
    private Connection connection;
    private Session session;
    private Queue queue;

    @BeforeEach
    void open() throws JMSException {
        connection = Broker.connect(null);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        queue = session.createQueue("jms." + UUID.randomUUID());
    }

    @AfterEach
    void close() throws JMSException {
        connection.close();
    }

    private void send(String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    private Message receive() throws JMSException {
        MessageConsumer consumer = session.createConsumer(queue);
        Message message = consumer.receive(Broker.TIMEOUT_MS);
        consumer.close();
        return message;
    }

    @Test
    void largeMessagesKeepTheirContent() throws Exception {
        byte[] content = new byte[3_000_000];
        for (int at = 0; at < content.length; at++) {
            content[at] = (byte) (at * 31 >> 7);
        }
        MessageProducer producer = session.createProducer(queue);
        for (int mode : new int[] {DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT}) {
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes(content);
            bytes.setStringProperty("colour", "red");
            producer.setDeliveryMode(mode);
            producer.send(bytes);
            producer.send(session.createTextMessage("x".repeat(1_000_000)));
        }
        MessageConsumer consumer = session.createConsumer(queue);
        for (int number = 0; number < 2; number++) {
            BytesMessage received = (BytesMessage) consumer.receive(Broker.TIMEOUT_MS);
            byte[] copy = new byte[content.length];
            assertEquals(content.length, received.getBodyLength());
            assertEquals(content.length, received.readBytes(copy));
            assertArrayEquals(content, copy);
            assertEquals("red", received.getStringProperty("colour"));
            assertEquals("x".repeat(1_000_000), Broker.text(consumer));
        }
    }

    @Test
    void messagesArriveInOrder() throws JMSException {
        send("1", "2", "3");

        assertEquals(List.of("1", "2", "3"), Broker.texts(session.createConsumer(queue)));
    }

    @Test
    void everyMessageTypeSurvives() throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createMessage());
        producer.send(session.createTextMessage("grüße"));
        producer.send(session.createTextMessage(null));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, -1});
        producer.send(bytes);
        MapMessage map = session.createMapMessage();
        map.setInt("int", -7);
        map.setString("text", "t");
        map.setBytes("bytes", new byte[] {5});
        map.setBoolean("flag", true);
        map.setDouble("double", 2.5);
        producer.send(map);
        StreamMessage stream = session.createStreamMessage();
        stream.writeLong(9L);
        stream.writeString("s");
        stream.writeChar('c');
        producer.send(stream);
        ObjectMessage object = session.createObjectMessage(new ArrayList<>(List.of("a", 1)));
        producer.send(object);

        MessageConsumer consumer = session.createConsumer(queue);
        Message plain = consumer.receive(Broker.TIMEOUT_MS);
        assertFalse(plain instanceof TextMessage || plain instanceof BytesMessage || plain instanceof MapMessage);
        assertEquals("grüße", Broker.text(consumer));
        assertNull(((TextMessage) consumer.receive(Broker.TIMEOUT_MS)).getText());
        BytesMessage receivedBytes = (BytesMessage) consumer.receive(Broker.TIMEOUT_MS);
        byte[] content = new byte[3];
        assertEquals(3, receivedBytes.readBytes(content));
        assertArrayEquals(new byte[] {0, 1, -1}, content);
        MapMessage receivedMap = (MapMessage) consumer.receive(Broker.TIMEOUT_MS);
        assertEquals(-7, receivedMap.getInt("int"));
        assertEquals("t", receivedMap.getString("text"));
        assertArrayEquals(new byte[] {5}, receivedMap.getBytes("bytes"));
        assertTrue(receivedMap.getBoolean("flag"));
        assertEquals(2.5, receivedMap.getDouble("double"));
        StreamMessage receivedStream = (StreamMessage) consumer.receive(Broker.TIMEOUT_MS);
        assertEquals(9L, receivedStream.readLong());
        assertEquals("s", receivedStream.readString());
        assertEquals('c', receivedStream.readChar());
        ObjectMessage receivedObject = (ObjectMessage) consumer.receive(Broker.TIMEOUT_MS);
        assertTrue(receivedObject.isBodyAssignableTo(ArrayList.class));
    }

    @Test
    void headersAndPropertiesSurvive() throws JMSException {
        Queue replies = session.createQueue("jms.replies");
        TextMessage message = session.createTextMessage("m");
        message.setJMSCorrelationID("c-1");
        message.setJMSReplyTo(replies);
        message.setJMSType("type");
        message.setStringProperty("s", "t");
        message.setIntProperty("i", 5);
        message.setBooleanProperty("b", true);
        message.setDoubleProperty("d", 1.25);
        session.createProducer(queue).send(message, DeliveryMode.PERSISTENT, 7, 60_000);

        Message received = receive();
        assertEquals(message.getJMSMessageID(), received.getJMSMessageID());
        assertEquals("c-1", received.getJMSCorrelationID());
        assertEquals(replies, received.getJMSReplyTo());
        assertEquals(queue, received.getJMSDestination());
        assertEquals("type", received.getJMSType());
        assertEquals(DeliveryMode.PERSISTENT, received.getJMSDeliveryMode());
        assertEquals(7, received.getJMSPriority());
        assertEquals(message.getJMSExpiration(), received.getJMSExpiration());
        assertEquals("t", received.getStringProperty("s"));
        assertEquals(5, received.getIntProperty("i"));
        assertTrue(received.getBooleanProperty("b"));
        assertEquals(1.25, received.getDoubleProperty("d"));
        assertFalse(received.getJMSRedelivered());
        assertEquals(1, received.getIntProperty("JMSXDeliveryCount"));
    }

    @Test
    void higherPriorityComesFirst() throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        for (int priority : new int[] {1, 9, 4}) {
            producer.send(session.createTextMessage("p" + priority), DeliveryMode.NON_PERSISTENT, priority, 0);
        }

        assertEquals(List.of("p9", "p4", "p1"), Broker.texts(session.createConsumer(queue)));
    }

    @Test
    void largeMessageSurvives() throws JMSException {
        byte[] content = new byte[2_000_000];
        for (int index = 0; index < content.length; index++) {
            content[index] = (byte) (index * 31);
        }
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(content);
        session.createProducer(queue).send(message);

        BytesMessage received = (BytesMessage) receive();
        byte[] result = new byte[content.length];
        assertEquals(content.length, received.getBodyLength());
        received.readBytes(result);
        assertArrayEquals(content, result);
    }

    @Test
    void selectorPicksMessages() throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        for (String colour : List.of("red", "blue", "red")) {
            TextMessage message = session.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            producer.send(message);
        }

        MessageConsumer red = session.createConsumer(queue, "colour = 'red' AND JMSPriority = 4");
        assertEquals(List.of("red", "red"), Broker.texts(red));
        red.close();
        assertEquals(List.of("blue"), Broker.texts(session.createConsumer(queue)));
    }

    @Test
    void selectorByMessageIdFindsOneMessage() throws JMSException {
        TextMessage wanted = session.createTextMessage("wanted");
        send("other");
        session.createProducer(queue).send(wanted);

        MessageConsumer consumer = session.createConsumer(queue, "JMSMessageID = '" + wanted.getJMSMessageID() + "'");
        assertEquals(List.of("wanted"), Broker.texts(consumer));
    }

    @Test
    void badSelectorIsRefused() {
        assertThrows(InvalidSelectorException.class, () -> session.createConsumer(queue, "colour = "));
    }

    @Test
    void browserLeavesTheMessages() throws JMSException {
        send("1", "2", "3");
        QueueBrowser browser = session.createBrowser(queue);
        List<String> seen = new ArrayList<>();
        Enumeration<?> messages = browser.getEnumeration();
        while (messages.hasMoreElements()) {
            seen.add(((TextMessage) messages.nextElement()).getText());
        }
        browser.close();

        assertEquals(List.of("1", "2", "3"), seen);
        assertEquals(List.of("1", "2", "3"), Broker.texts(session.createConsumer(queue)));
    }

    @Test
    void browserOfAnEmptyQueueEnds() throws JMSException {
        assertFalse(session.createBrowser(queue).getEnumeration().hasMoreElements());
    }

    @Test
    void acknowledgementCoversWhatWasReceivedBefore() throws JMSException {
        Session client = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        send("1", "2", "3");
        MessageConsumer consumer = client.createConsumer(queue);
        consumer.receive(Broker.TIMEOUT_MS);
        consumer.receive(Broker.TIMEOUT_MS).acknowledge();
        client.close();

        assertEquals(List.of("3"), Broker.texts(session.createConsumer(queue)));
    }

    @Test
    void recoveryRedeliversInOrder() throws JMSException {
        Session client = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        send("1", "2");
        MessageConsumer consumer = client.createConsumer(queue);
        assertEquals("1", Broker.text(consumer));
        assertEquals("2", Broker.text(consumer));
        client.recover();
        Message first = consumer.receive(Broker.TIMEOUT_MS);
        Message second = consumer.receive(Broker.TIMEOUT_MS);

        assertEquals("1", ((TextMessage) first).getText());
        assertTrue(first.getJMSRedelivered());
        assertEquals(2, first.getIntProperty("JMSXDeliveryCount"));
        assertEquals("2", ((TextMessage) second).getText());
        second.acknowledge();
    }

    @Test
    void delayedMessageComesNotBeforeItsTime() throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryDelay(500);
        long earliest = System.currentTimeMillis() + 500;
        producer.send(session.createTextMessage("later"));
        MessageConsumer consumer = session.createConsumer(queue);

        assertNull(consumer.receiveNoWait());
        assertEquals("later", Broker.text(consumer));
        assertTrue(System.currentTimeMillis() >= earliest);
    }

    @Test
    void temporaryQueueCarriesReplies() throws JMSException {
        TemporaryQueue replies = session.createTemporaryQueue();
        TextMessage request = session.createTextMessage("ping");
        request.setJMSReplyTo(replies);
        session.createProducer(queue).send(request);
        try (Connection server = Broker.connect(null)) {
            Session other = server.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Message asked = other.createConsumer(queue).receive(Broker.TIMEOUT_MS);
            TextMessage answer = other.createTextMessage("pong");
            answer.setJMSCorrelationID(asked.getJMSMessageID());
            other.createProducer(null).send(asked.getJMSReplyTo(), answer);
        }
        MessageConsumer consumer = session.createConsumer(replies);
        Message reply = consumer.receive(Broker.TIMEOUT_MS);

        assertNotNull(reply);
        assertEquals("pong", ((TextMessage) reply).getText());
        assertEquals(request.getJMSMessageID(), reply.getJMSCorrelationID());
        consumer.close();
        replies.delete();
    }

    @Test
    void deletedTemporaryQueueIsGone() throws JMSException {
        TemporaryQueue temporary = session.createTemporaryQueue();
        session.createProducer(temporary).send(session.createTextMessage("lost"));
        temporary.delete();
        try (Connection other = Broker.connect(null)) {
            Session theirs = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue sameName = theirs.createQueue(temporary.getQueueName());
            assertEquals(List.of(), Broker.texts(theirs.createConsumer(sameName)));
        }
    }

    @Test
    void relayedProducerSendsToManyQueues() throws JMSException {
        MessageProducer producer = session.createProducer(null);
        Queue other = session.createQueue(queue.getQueueName() + ".other");
        producer.send(queue, session.createTextMessage("one"));
        producer.send(other, session.createTextMessage("two"));

        assertEquals(List.of("one"), Broker.texts(session.createConsumer(queue)));
        assertEquals(List.of("two"), Broker.texts(session.createConsumer(other)));
    }

    @Test
    void asynchronousListenerGetsEveryMessage() throws Exception {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch latch = new CountDownLatch(50);
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.setMessageListener(message -> {
            try {
                seen.add(((TextMessage) message).getText());
            } catch (JMSException error) {
                seen.add(error.toString());
            }
            latch.countDown();
        });
        try (Connection producerSide = Broker.connect(null)) {
            Session other = producerSide.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = other.createProducer(queue);
            for (int number = 0; number < 50; number++) {
                producer.send(other.createTextMessage("m" + number));
            }
        }

        assertTrue(latch.await(Broker.TIMEOUT_MS, TimeUnit.MILLISECONDS));
        assertEquals(IntStream.range(0, 50).mapToObj(number -> "m" + number).toList(), seen);
    }
}
