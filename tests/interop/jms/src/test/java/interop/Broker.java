package interop;

import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/** The broker under test, as `-Dbroker.url=` names it. */
final class Broker {
    /** How long something expected may take, in milliseconds. */
    static final long TIMEOUT_MS = 20_000;

    private Broker() {}

    /** A factory for connections with a client id of their own, or without one. */
    static ConnectionFactory factory(String clientId) {
        String options = clientId == null ? "" : "?jms.clientID=" + clientId;
        return new JmsConnectionFactory(System.getProperty("broker.url") + options);
    }

    /** A started connection. */
    static Connection connect(String clientId) throws JMSException {
        Connection connection = factory(clientId).createConnection();
        connection.start();
        return connection;
    }

    /** The next message's text; null would mean that it never came. */
    static String text(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(TIMEOUT_MS);
        return message == null ? null : ((TextMessage) message).getText();
    }

    /** Texts of all the broker has now: receiveNoWait drains the link, so nothing here depends on time. */
    static List<String> texts(MessageConsumer consumer) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Message message = consumer.receiveNoWait(); message != null; message = consumer.receiveNoWait()) {
            texts.add(((TextMessage) message).getText());
        }
        return texts;
    }
}
