package containers;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.jms.TextMessage;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.connection.SingleConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;

/** Spring's listener container and template, with cached sessions, producers and consumers. Arguments: the URL. */
public final class Listeners {
    private static final int MESSAGES = 60;
    private static final long TIMEOUT_MS = 20_000;
    private static final String QUEUE = "listeners.queue";
    private static final String TOPIC = "listeners.topic";

    private final ActiveMQConnectionFactory factory;
    private final Seen seen = new Seen();

    private Listeners(String url) {
        factory = new ActiveMQConnectionFactory("admin", "secret", url);
        factory.getRedeliveryPolicy().setInitialRedeliveryDelay(20);
    }

    public static void main(String[] arguments) throws Exception {
        Listeners listeners = new Listeners(arguments[0]);
        CachingConnectionFactory caching = new CachingConnectionFactory(listeners.factory);
        caching.setSessionCacheSize(10);
        listeners.transactedQueue(caching);
        listeners.requests(caching);
        listeners.durableTopic();
        caching.destroy();
        listeners.seen.print();
        System.exit(0);
    }

    private static boolean becomes(BooleanSupplier condition) throws InterruptedException {
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (!condition.getAsBoolean() && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
        return condition.getAsBoolean();
    }

    private static String text(Message message) {
        try {
            return ((TextMessage) message).getText();
        } catch (JMSException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    private static DefaultMessageListenerContainer container(
            ConnectionFactory factory, String destination, MessageListener listener) {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(factory);
        container.setDestinationName(destination);
        container.setSessionTransacted(true);
        container.setMessageListener(listener);
        return container;
    }

    private static void start(DefaultMessageListenerContainer container) {
        container.afterPropertiesSet();
        container.start();
    }

    /** Every tenth message fails at its first attempt; consumers come and go with the load. */
    private void transactedQueue(ConnectionFactory caching) throws Exception {
        Set<String> failed = ConcurrentHashMap.newKeySet();
        Set<String> processed = ConcurrentHashMap.newKeySet();
        AtomicInteger twice = new AtomicInteger();
        AtomicInteger redelivered = new AtomicInteger();
        DefaultMessageListenerContainer container = container(caching, QUEUE, message -> {
            String text = text(message);
            if (text.endsWith("0") && failed.add(text)) {
                throw new IllegalStateException("first attempt");
            }
            try {
                redelivered.addAndGet(message.getJMSRedelivered() ? 1 : 0);
            } catch (JMSException wrong) {
                throw new IllegalStateException(wrong);
            }
            if (!processed.add(text)) {
                twice.incrementAndGet();
            }
        });
        container.setConcurrentConsumers(2);
        container.setMaxConcurrentConsumers(4);
        container.setMaxMessagesPerTask(5);
        container.setReceiveTimeout(200);
        container.setCacheLevel(DefaultMessageListenerContainer.CACHE_CONSUMER);
        start(container);
        JmsTemplate template = new JmsTemplate(caching);
        for (int index = 0; index < MESSAGES; index++) {
            template.convertAndSend(QUEUE, "m" + index);
        }
        becomes(() -> processed.size() == MESSAGES);
        Thread.sleep(300);
        seen.see("processed", processed.size());
        seen.see("failed first", failed.size());
        // Spring may close the consumer of a failed task, and what it had prefetched comes as redelivered as well.
        seen.see("failed ones are redelivered", redelivered.get() >= failed.size());
        seen.see("processed twice", twice.get());
        container.destroy();
        template.setReceiveTimeout(500);
        seen.see("left", template.receive(QUEUE) == null ? 0 : 1);
    }

    /** A request for each message, answered over a temporary queue. */
    private void requests(ConnectionFactory caching) throws Exception {
        JmsTemplate template = new JmsTemplate(caching);
        template.setReceiveTimeout(TIMEOUT_MS);
        DefaultMessageListenerContainer container = container(caching, "listeners.requests", message -> {
            try {
                template.send(message.getJMSReplyTo(), session -> session.createTextMessage("re " + text(message)));
            } catch (JMSException wrong) {
                throw new IllegalStateException(wrong);
            }
        });
        start(container);
        int answered = 0;
        for (int index = 0; index < 10; index++) {
            String text = "request" + index;
            Message answer = template.sendAndReceive("listeners.requests", session -> session.createTextMessage(text));
            answered += answer != null && text(answer).equals("re " + text) ? 1 : 0;
        }
        seen.see("answered", answered);
        container.destroy();
    }

    /** A durable subscription that misses nothing while its container is stopped. */
    private void durableTopic() throws Exception {
        SingleConnectionFactory single = new SingleConnectionFactory(factory);
        single.setClientId("listeners");
        single.setReconnectOnException(true);
        Set<String> received = ConcurrentHashMap.newKeySet();
        JmsTemplate template = new JmsTemplate(factory);
        template.setPubSubDomain(true);
        for (int round = 0; round < 2; round++) {
            DefaultMessageListenerContainer container =
                    container(single, TOPIC, message -> received.add(text(message)));
            container.setPubSubDomain(true);
            container.setSubscriptionDurable(true);
            container.setDurableSubscriptionName("s");
            start(container);
            becomes(() -> container.getActiveConsumerCount() == 1 && container.isRegisteredWithDestination());
            int wanted = 5 + 10 * round;
            for (int index = 0; index < 5; index++) {
                template.convertAndSend(TOPIC, round + "m" + index);
            }
            seen.see("received in round " + round, becomes(() -> received.size() == wanted));
            container.destroy();
            for (int index = 0; round == 0 && index < 5; index++) {
                template.convertAndSend(TOPIC, "away" + index);
            }
        }
        single.destroy();
    }
}
