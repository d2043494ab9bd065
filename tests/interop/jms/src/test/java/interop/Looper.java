package interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A client that takes each message with a consumer of its own, as templates and polling jobs do.
 *
 * <p>In the queue <code>loop.N</code>, for a prefetch of N, there must be the texts from 0 up to <code>-Dbroker.count=
 * </code>, wherever in the mesh they are.
 */
final class Looper {
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 1000})
    void getsOneMessageWithEachConsumer(int prefetch) throws JMSException {
        String url = System.getProperty("broker.url") + "?jms.prefetchPolicy.all=" + prefetch;
        List<String> wanted = IntStream.range(0, Integer.getInteger("broker.count")).mapToObj(String::valueOf).toList();
        List<String> texts = new ArrayList<>();
        try (Connection connection = new JmsConnectionFactory(url).createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("loop." + prefetch);
            while (texts.size() < wanted.size()) {
                try (MessageConsumer consumer = session.createConsumer(queue)) {
                    texts.add(Broker.text(consumer));
                }
            }
            try (MessageConsumer consumer = session.createConsumer(queue)) {
                assertNull(consumer.receiveNoWait());
            }
        }
        assertEquals(wanted, texts);
    }
}
