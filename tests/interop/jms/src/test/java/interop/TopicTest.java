package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.jms.Connection;
import jakarta.jms.InvalidClientIDException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Publish and subscribe. */
class TopicTest {
    private String clientId;
    private Connection connection;
    private Session session;
    private Topic topic;

    @BeforeEach
    void open() throws JMSException {
        clientId = "client-" + UUID.randomUUID();
        connection = Broker.connect(clientId);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        topic = session.createTopic("jms.topic." + UUID.randomUUID());
    }

    @AfterEach
    void close() throws JMSException {
        connection.close();
    }

    private void publish(String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(topic);
        for (String text : texts) {
            TextMessage message = session.createTextMessage(text);
            message.setStringProperty("text", text);
            producer.send(message);
        }
        producer.close();
    }

    @Test
    void everySubscriberGetsACopy() throws JMSException {
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = session.createConsumer(topic);
        publish("m");

        assertEquals(List.of("m"), Broker.texts(first));
        assertEquals(List.of("m"), Broker.texts(second));
    }

    @Test
    void subscriberGetsNothingFromBefore() throws JMSException {
        publish("early");

        assertEquals(List.of(), Broker.texts(session.createConsumer(topic)));
    }

    @Test
    void subscriberWithSelectorGetsWhatItMatches() throws JMSException {
        MessageConsumer consumer = session.createConsumer(topic, "text LIKE 'a%'");
        publish("apple", "pear");

        assertEquals(List.of("apple"), Broker.texts(consumer));
    }

    @Test
    void noLocalSubscriberDoesNotGetItsOwn() throws JMSException {
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        publish("own");
        try (Connection other = Broker.connect(null)) {
            Session theirs = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            theirs.createProducer(topic).send(theirs.createTextMessage("other"));
        }

        assertEquals(List.of("other"), Broker.texts(consumer));
    }

    @Test
    void durableSubscriptionOutlivesItsConsumer() throws JMSException {
        session.createDurableSubscriber(topic, "sub").close();
        publish("while away");

        assertEquals(List.of("while away"), Broker.texts(session.createDurableSubscriber(topic, "sub")));
    }

    @Test
    void durableSubscriptionOutlivesItsConnection() throws JMSException {
        session.createDurableConsumer(topic, "sub");
        connection.close();
        try (Connection other = Broker.connect(null)) {
            Session theirs = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            theirs.createProducer(topic).send(theirs.createTextMessage("while away"));
        }
        connection = Broker.connect(clientId);
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);

        assertEquals(List.of("while away"), Broker.texts(session.createDurableConsumer(topic, "sub")));
    }

    @Test
    void durableSubscriptionWithAnotherSelectorStartsAnew() throws JMSException {
        session.createDurableConsumer(topic, "sub", "text = 'a'", false).close();
        publish("a", "b");
        MessageConsumer consumer = session.createDurableConsumer(topic, "sub", "text = 'b'", false);
        publish("a", "b");

        assertEquals(List.of("b"), Broker.texts(consumer));
    }

    @Test
    void unsubscribedSubscriptionIsGone() throws JMSException {
        session.createDurableConsumer(topic, "sub").close();
        publish("forgotten");
        session.unsubscribe("sub");

        assertEquals(List.of(), Broker.texts(session.createDurableConsumer(topic, "sub")));
    }

    @Test
    void unknownSubscriptionCannotBeUnsubscribed() {
        assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("never"));
    }

    @Test
    void activeSubscriptionCannotBeUnsubscribed() throws JMSException {
        session.createDurableConsumer(topic, "sub");

        assertThrows(JMSException.class, () -> session.unsubscribe("sub"));
    }

    @Test
    void sharedDurableSubscribersDivideTheMessages() throws JMSException {
        MessageConsumer first = session.createSharedDurableConsumer(topic, "shared");
        MessageConsumer second = session.createSharedDurableConsumer(topic, "shared");
        divide(first, second);
        first.close();
        second.close();
        session.unsubscribe("shared");
    }

    @Test
    void sharedVolatileSubscribersDivideTheMessages() throws JMSException {
        divide(session.createSharedConsumer(topic, "shared"), session.createSharedConsumer(topic, "shared"));
    }

    @Test
    void sharedDurableSubscriptionOutlivesItsConsumers() throws JMSException {
        session.createSharedDurableConsumer(topic, "shared").close();
        publish("while away");

        assertEquals(List.of("while away"), Broker.texts(session.createSharedDurableConsumer(topic, "shared")));
    }

    @Test
    void sharedSubscriptionWithoutClientIdSpansConnections() throws JMSException {
        String name = "global-" + UUID.randomUUID();
        try (Connection one = Broker.connect(null); Connection two = Broker.connect(null)) {
            Session first = one.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session second = two.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer firstConsumer = first.createSharedDurableConsumer(topic, name);
            MessageConsumer secondConsumer = second.createSharedDurableConsumer(topic, name);
            divide(firstConsumer, secondConsumer);
            firstConsumer.close();
            secondConsumer.close();
            first.unsubscribe(name);
        }
    }

    /** Publish four messages: together the consumers get each once. */
    private void divide(MessageConsumer first, MessageConsumer second) throws JMSException {
        publish("1", "2", "3", "4");
        List<String> all = new ArrayList<>(Broker.texts(first));
        all.addAll(Broker.texts(second));
        Collections.sort(all);
        assertEquals(List.of("1", "2", "3", "4"), all);
    }

    @Test
    void temporaryTopicReachesItsSubscribers() throws JMSException {
        TemporaryTopic temporary = session.createTemporaryTopic();
        MessageConsumer first = session.createConsumer(temporary);
        MessageConsumer second = session.createConsumer(temporary);
        try (Connection other = Broker.connect(null)) {
            Session theirs = other.createSession(false, Session.AUTO_ACKNOWLEDGE);
            theirs.createProducer(temporary).send(theirs.createTextMessage("m"));
        }

        assertEquals(List.of("m"), Broker.texts(first));
        assertEquals(List.of("m"), Broker.texts(second));
        first.close();
        second.close();
        temporary.delete();
    }

    @Test
    void clientIdIsExclusive() throws JMSException {
        assertThrows(InvalidClientIDException.class, () -> Broker.connect(clientId).close());
        connection.close();
        connection = Broker.connect(clientId);
    }
}
