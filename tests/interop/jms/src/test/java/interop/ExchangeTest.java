package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Topics that are an exchange with a key: `amq.topic/orders.new`. */
class ExchangeTest {
    private String clientId;
    private Connection connection;
    private Session session;
    /** First word of all keys, so that the tests keep apart. */
    private String word;
    private Topic all;

    @BeforeEach
    void open() throws JMSException {
        clientId = "client-" + UUID.randomUUID();
        connection = Broker.connect(clientId);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        word = "w" + UUID.randomUUID();
        all = session.createTopic("amq.topic/" + word + ".#");
    }

    @AfterEach
    void close() throws JMSException {
        connection.close();
    }

    /** One message for each key, whose text is the key. */
    private void publish(String... keys) throws JMSException {
        for (String key : keys) {
            MessageProducer producer = session.createProducer(session.createTopic("amq.topic/" + word + "." + key));
            TextMessage message = session.createTextMessage(key);
            message.setStringProperty("text", key);
            producer.send(message);
            producer.close();
        }
    }

    @Test
    void subscriberGetsTheKeysItAskedFor() throws JMSException {
        MessageConsumer one = session.createConsumer(session.createTopic("amq.topic/" + word + ".*.eu"));
        MessageConsumer other = session.createConsumer(all, "text <> 'new.eu'");
        publish("new.eu", "old.eu", "new.us");

        assertEquals(List.of("new.eu", "old.eu"), Broker.texts(one));
        assertEquals(List.of("old.eu", "new.us"), Broker.texts(other));
    }

    @Test
    void typeOfTheMessageIsItsKey() throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createTopic("amq.topic/" + word + ".typed"));
        TextMessage message = session.createTextMessage("m");
        message.setJMSType(word + ".typed");
        session.createProducer(session.createTopic("amq.topic")).send(message);

        assertEquals("m", Broker.text(consumer));
    }

    @Test
    void durableSubscriptionOutlivesItsConnection() throws JMSException {
        session.createDurableConsumer(all, "sub");
        connection.close();
        connection = Broker.connect(null);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        publish("while.away");
        connection.close();
        connection = Broker.connect(clientId);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);

        assertEquals(List.of("while.away"), Broker.texts(session.createDurableConsumer(all, "sub")));
    }

    @Test
    void durableSubscriptionWithAnotherKeyOrSelectorStartsAnew() throws JMSException {
        session.createDurableConsumer(all, "sub").close();
        publish("a");
        session.createDurableConsumer(all, "sub", "text = 'b'", false).close();
        publish("a", "b");
        Topic onlyC = session.createTopic("amq.topic/" + word + ".c");
        MessageConsumer again = session.createDurableConsumer(all, "sub", "text = 'b'", false);
        assertEquals(List.of("b"), Broker.texts(again));
        again.close();
        publish("b");
        MessageConsumer consumer = session.createDurableConsumer(onlyC, "sub");
        publish("a", "b", "c");

        assertEquals(List.of("c"), Broker.texts(consumer));
    }

    @Test
    void unsubscribedSubscriptionIsGone() throws JMSException {
        session.createDurableConsumer(all, "sub").close();
        publish("forgotten");
        session.unsubscribe("sub");

        assertEquals(List.of(), Broker.texts(session.createDurableConsumer(all, "sub")));
        assertThrows(JMSException.class, () -> session.unsubscribe("sub"));
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("never"));
    }

    @Test
    void sharedDurableSubscriptionIsShared() throws JMSException {
        MessageConsumer first = session.createSharedDurableConsumer(all, "sub");
        MessageConsumer second = session.createSharedDurableConsumer(all, "sub");
        publish("1", "2", "3", "4");
        List<String> texts = new ArrayList<>(Broker.texts(first));
        texts.addAll(Broker.texts(second));
        Collections.sort(texts);

        assertEquals(List.of("1", "2", "3", "4"), texts);
    }

    @Test
    void sharedSubscriptionEndsWithItsLastConsumer() throws JMSException {
        MessageConsumer first = session.createSharedConsumer(all, "sub");
        MessageConsumer second = session.createSharedConsumer(all, "sub");
        first.close();
        publish("kept");
        assertEquals("kept", Broker.text(second));
        publish("gone");
        second.close();

        assertEquals(List.of(), Broker.texts(session.createSharedConsumer(all, "sub")));
    }
}
