package interop;

import java.util.ArrayList;
import java.util.List;
import javax.jms.DeliveryMode;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** Every version and encoding that the client can ask for. */
public final class Wire {
    private static String exchange(Site site, String options, String queue) throws Exception {
        ActiveMQConnection connection = site.connect(options);
        try {
            Session session = Site.transacted(connection);
            MessageProducer producer = session.createProducer(session.createQueue(site.name(queue)));
            MessageConsumer consumer = session.createConsumer(session.createQueue(site.name(queue)));
            javax.jms.Message message = session.createTextMessage("ü\u0000\ud83d\ude00");
            message.setStringProperty("p", "v");
            message.setJMSReplyTo(session.createTopic("t"));
            producer.send(message, DeliveryMode.PERSISTENT, 5, 60_000);
            session.commit();
            javax.jms.Message got = consumer.receive(Site.ARRIVES_MS);
            session.commit();
            String headers = got.getJMSReplyTo() + " " + got.getJMSPriority();
            return Site.text(got) + " " + got.getStringProperty("p") + " " + headers;
        } finally {
            connection.close();
        }
    }

    public void versions(Site site) throws Exception {
        for (int version = 1; version <= 12; version++) {
            site.see("version " + version, exchange(site, "?wireFormat.version=" + version, "v" + version));
        }
    }

    public void encodings(Site site) throws Exception {
        for (String tight : List.of("true", "false")) {
            for (String cache : List.of("true", "false")) {
                String options = "?wireFormat.tightEncodingEnabled=" + tight + "&wireFormat.cacheEnabled=" + cache;
                site.see("tight " + tight + ", cache " + cache, exchange(site, options, tight + cache));
            }
        }
        site.see("small cache", exchange(site, "?wireFormat.cacheSize=128", "small"));
        site.see("no size prefix", exchange(site, "?wireFormat.sizePrefixDisabled=true", "prefix"));
        site.see("no stack traces", exchange(site, "?wireFormat.stackTraceEnabled=false", "traces"));
    }

    /** Many ids on one connection: slots of the cache are used again. */
    public void manyProducers(Site site) throws Exception {
        Session session = Site.auto(site.connect("?wireFormat.cacheSize=120"));
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        int received = 0;
        for (int index = 0; index < 150; index++) {
            Site.send(session, site.queue(session), String.valueOf(index)).close();
            received += String.valueOf(index).equals(Site.next(consumer)) ? 1 : 0;
        }
        site.see("received in order", received);
    }

    /** A silent connection stays: both sides say that they are there. */
    public void keepAlive(Site site) throws Exception {
        String options = "?wireFormat.maxInactivityDuration=900&wireFormat.maxInactivityDurationInitalDelay=300";
        ActiveMQConnection connection = site.connect(options);
        List<String> heard = java.util.Collections.synchronizedList(new ArrayList<>());
        connection.setExceptionListener(exception -> heard.add(exception.toString()));
        Session session = Site.auto(connection);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        Thread.sleep(3_500);
        site.see("failures", heard.size());
        Site.send(session, site.queue(session), "m");
        site.see("received", Site.next(consumer));
    }

    public void noInactivityMonitor(Site site) throws Exception {
        site.see("exchange", exchange(site, "?wireFormat.maxInactivityDuration=0", "queue"));
    }

    /** A client that goes silent is given up, and its message goes to another. */
    public void silentClient(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            String options = "?wireFormat.maxInactivityDuration=1000&wireFormat.maxInactivityDurationInitalDelay=300";
            Site via = new Site(site.scenario, proxy.url());
            ActiveMQConnection connection = via.connect(options);
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Site.send(session, site.queue(session), "m");
            site.see("first", Site.next(session.createConsumer(site.queue(session))));
            proxy.freeze();
            Session other = Site.auto(site.connect());
            MessageConsumer next = other.createConsumer(site.queue(other));
            site.see("another gets it", Site.next(next));
        }
    }
}
