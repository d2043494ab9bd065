package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Sessions that commit and roll back. */
class TransactionTest {
    private Connection connection;
    private Session plain;
    private Session transacted;
    private Queue queue;

    @BeforeEach
    void open() throws JMSException {
        connection = Broker.connect(null);
        plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        queue = plain.createQueue("jms.tx." + UUID.randomUUID());
    }

    @AfterEach
    void close() throws JMSException {
        connection.close();
    }

    private List<String> remaining() throws JMSException {
        MessageConsumer consumer = plain.createConsumer(queue);
        List<String> texts = Broker.texts(consumer);
        consumer.close();
        return texts;
    }

    @Test
    void sentMessagesAppearWithTheCommit() throws JMSException {
        MessageProducer producer = transacted.createProducer(queue);
        producer.send(transacted.createTextMessage("1"));
        producer.send(transacted.createTextMessage("2"));
        assertEquals(List.of(), remaining());
        transacted.commit();

        assertEquals(List.of("1", "2"), remaining());
    }

    @Test
    void sentMessagesVanishWithTheRollback() throws JMSException {
        MessageProducer producer = transacted.createProducer(queue);
        producer.send(transacted.createTextMessage("lost"));
        transacted.rollback();
        producer.send(transacted.createTextMessage("kept"));
        transacted.commit();

        assertEquals(List.of("kept"), remaining());
    }

    @Test
    void receivedMessagesAreGoneWithTheCommit() throws JMSException {
        plain.createProducer(queue).send(plain.createTextMessage("m"));
        MessageConsumer consumer = transacted.createConsumer(queue);
        assertEquals("m", Broker.text(consumer));
        transacted.commit();
        consumer.close();

        assertEquals(List.of(), remaining());
    }

    @Test
    void receivedMessagesComeBackWithTheRollback() throws JMSException {
        MessageProducer producer = plain.createProducer(queue);
        producer.send(plain.createTextMessage("1"));
        producer.send(plain.createTextMessage("2"));
        MessageConsumer consumer = transacted.createConsumer(queue);
        assertFalse(consumer.receive(Broker.TIMEOUT_MS).getJMSRedelivered());
        assertEquals("2", Broker.text(consumer));
        transacted.rollback();

        Message first = consumer.receive(Broker.TIMEOUT_MS);
        Message second = consumer.receive(Broker.TIMEOUT_MS);
        assertEquals("1", ((TextMessage) first).getText());
        assertEquals("2", ((TextMessage) second).getText());
        assertTrue(first.getJMSRedelivered());
        assertEquals(2, first.getIntProperty("JMSXDeliveryCount"));
        transacted.commit();
    }

    @Test
    void closingTheSessionRollsBack() throws JMSException {
        plain.createProducer(queue).send(plain.createTextMessage("stays"));
        assertEquals("stays", Broker.text(transacted.createConsumer(queue)));
        transacted.createProducer(queue).send(transacted.createTextMessage("lost"));
        transacted.close();

        assertEquals(List.of("stays"), remaining());
    }

    @Test
    void messageMovesBetweenQueuesAtOnce() throws JMSException {
        Queue target = plain.createQueue(queue.getQueueName() + ".target");
        plain.createProducer(queue).send(plain.createTextMessage("m"));
        MessageConsumer consumer = transacted.createConsumer(queue);
        MessageProducer producer = transacted.createProducer(target);
        producer.send(consumer.receive(Broker.TIMEOUT_MS));
        transacted.rollback();
        producer.send(consumer.receive(Broker.TIMEOUT_MS));
        transacted.commit();
        consumer.close();

        assertEquals(List.of(), remaining());
        assertEquals(List.of("m"), Broker.texts(plain.createConsumer(target)));
    }

    @Test
    void manyTransactionsFollowEachOther() throws JMSException {
        MessageProducer producer = transacted.createProducer(queue);
        for (int number = 0; number < 20; number++) {
            producer.send(transacted.createTextMessage("m" + number));
            if (number % 2 == 0) {
                transacted.commit();
            } else {
                transacted.rollback();
            }
        }

        assertEquals(10, remaining().size());
    }
}
