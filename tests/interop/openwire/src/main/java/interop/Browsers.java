package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;

/** Looking at a queue without taking from it. */
public final class Browsers {
    private static List<String> browse(QueueBrowser browser) throws Exception {
        List<String> texts = new ArrayList<>();
        for (Object message : Collections.list(browser.getEnumeration())) {
            texts.add(Site.text((Message) message));
        }
        return texts;
    }

    private static void fill(Site site, Session session, int number) throws Exception {
        MessageProducer producer = session.createProducer(site.queue(session));
        for (int index = 1; index <= number; index++) {
            Message message = session.createTextMessage(String.valueOf(index));
            message.setIntProperty("n", index);
            producer.send(message);
        }
    }

    public void all(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        fill(site, session, 3);
        QueueBrowser browser = session.createBrowser(site.queue(session));
        site.see("browsed", browse(browser));
        site.see("browsed again", browse(browser));
        browser.close();
        site.see("left", site.left(site.name("queue")));
    }

    public void selected(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        fill(site, session, 4);
        site.see("browsed", browse(session.createBrowser(site.queue(session), "n > 2")));
    }

    public void empty(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        site.see("browsed", browse(session.createBrowser(site.queue(session))));
    }

    /** More messages than the window of the browser. */
    public void beyondPrefetch(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.prefetchPolicy.queueBrowserPrefetch=5");
        Session session = Site.auto(connection);
        fill(site, session, 23);
        site.see("browsed", browse(session.createBrowser(site.queue(session))).size());
    }

    /** Messages that a consumer holds. */
    public void inDelivery(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        fill(site, session, 3);
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        site.see("received", Site.take(consumer, 1));
        Thread.sleep(Site.QUIET_MS);
        Session other = Site.auto(connection);
        site.see("browsed", browse(other.createBrowser(site.queue(other))));
    }

    public void whileConsuming(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        fill(site, session, 2);
        QueueBrowser browser = session.createBrowser(site.queue(session));
        site.see("browsed", browse(browser));
        site.see("received", Site.take(session.createConsumer(site.queue(session)), 2));
        site.see("browsed afterwards", browse(browser));
    }
}
