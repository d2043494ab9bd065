package interop;

import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSslConnectionFactory;

/**
 * TLS: whom the client trusts, a certificate in place of a password, and links that deliver octets in small pieces.
 *
 * <p>Arguments: `host:port` of the broker, a folder with `authority.pem` and `client.pem`, and a folder for key stores.
 */
public final class Encrypted {
    private static final String PASSWORD = "secret";
    private static final int LARGE = 100_000;
    /** Many small pieces take their time. */
    private static final int PIECES = 1_000;

    private final String address;
    private final Path trust;
    private final Path keys;

    private Encrypted(String address, Path certificates, Path folder) throws Exception {
        this.address = address;
        trust = folder.resolve("trust.p12");
        keys = folder.resolve("keys.p12");
        KeyStore trusted = empty();
        trusted.setCertificateEntry("authority", certificate(certificates.resolve("authority.pem")));
        store(trusted, trust);
        KeyStore own = empty();
        Path client = certificates.resolve("client.pem");
        own.setKeyEntry("client", key(client), PASSWORD.toCharArray(), new Certificate[] {certificate(client)});
        store(own, keys);
    }

    private static KeyStore empty() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static void store(KeyStore store, Path path) throws Exception {
        try (OutputStream file = Files.newOutputStream(path)) {
            store.store(file, PASSWORD.toCharArray());
        }
    }

    private static String block(Path pem, String kind) throws Exception {
        String text = Files.readString(pem, StandardCharsets.US_ASCII);
        String begin = "-----BEGIN " + kind + "-----";
        int start = text.indexOf(begin) + begin.length();
        return text.substring(start, text.indexOf("-----END", start));
    }

    private static Certificate certificate(Path pem) throws Exception {
        byte[] octets = Base64.getMimeDecoder().decode(block(pem, "CERTIFICATE"));
        try (InputStream input = new java.io.ByteArrayInputStream(octets)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(input);
        }
    }

    private static PrivateKey key(Path pem) throws Exception {
        PKCS8EncodedKeySpec octets =
                new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(block(pem, "PRIVATE KEY")));
        try {
            return KeyFactory.getInstance("RSA").generatePrivate(octets);
        } catch (java.security.spec.InvalidKeySpecException notRsa) {
            return KeyFactory.getInstance("EC").generatePrivate(octets);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Encrypted encrypted = new Encrypted(arguments[0], Path.of(arguments[1]), Path.of(arguments[2]));
        Site site = new Site("Encrypted", "tcp://" + arguments[0]);
        try (site) {
            encrypted.logins(site);
            encrypted.exchanges(site);
            encrypted.failover(site);
        } catch (Exception failed) {
            site.fail(failed);
        }
        System.out.println(site.report());
        System.exit(0);
    }

    private ActiveMQSslConnectionFactory factory(String url, boolean identified) throws Exception {
        ActiveMQSslConnectionFactory factory = new ActiveMQSslConnectionFactory(url);
        factory.setTrustStore(trust.toString());
        factory.setTrustStorePassword(PASSWORD);
        if (identified) {
            factory.setKeyStore(keys.toString());
            factory.setKeyStorePassword(PASSWORD);
        }
        return factory;
    }

    private void logins(Site site) throws Exception {
        String url = "ssl://" + address;
        site.see("certificate", Site.outcome(() -> use(site, factory(url, true).createConnection())));
        site.see("neither", Site.outcome(() -> use(site, factory(url, false).createConnection())));
        site.see("password", Site.outcome(() -> use(site, factory(url, false).createConnection("ann", PASSWORD))));
        // The password counts: an application that names a user wants to be that user.
        site.see("both", Site.outcome(() -> use(site, factory(url, true).createConnection("ann", "wrong"))));
        site.see("no trust", Site.outcome(
                () -> use(site, new ActiveMQSslConnectionFactory(url).createConnection("ann", PASSWORD))));
        site.see("without TLS", Site.outcome(() -> use(site, site.factory("").createConnection("ann", PASSWORD))));
    }

    private static void use(Site site, Connection connection) throws Exception {
        try (connection) {
            Site.auto(connection).createProducer(null);
        }
    }

    /** Large and small messages, and a transaction, in pieces of any size. */
    private void exchanges(Site site) throws Exception {
        for (int size : new int[] {65_536, 1_000, 7}) {
            try (Proxy proxy = new Proxy(site.url, size);
                    Connection connection = factory(proxy.url().replace("tcp:", "ssl:"), true).createConnection()) {
                connection.start();
                Session session = Site.transacted(connection);
                MessageProducer producer = session.createProducer(session.createQueue("encrypted"));
                List<String> texts = new ArrayList<>(List.of("ü".repeat(Math.min(LARGE, PIECES * size))));
                for (int index = 0; index < 20; index++) {
                    texts.add("m" + index);
                }
                for (String text : texts) {
                    producer.send(session.createTextMessage(text));
                }
                session.commit();
                MessageConsumer consumer = session.createConsumer(session.createQueue("encrypted"));
                site.see("the same in pieces of " + size, Site.take(consumer, texts.size()).equals(texts));
                session.commit();
            }
        }
    }

    private void failover(Site site) throws Exception {
        try (Proxy proxy = new Proxy(site.url)) {
            String url = "failover:(" + proxy.url().replace("tcp:", "ssl:") + ")?initialReconnectDelay=50";
            ActiveMQConnection connection = site.start((ActiveMQConnection) factory(url, true).createConnection());
            Session session = Site.auto(connection);
            MessageConsumer consumer = session.createConsumer(session.createQueue("again"));
            for (int index = 0; index < 3; index++) {
                Site.send(session, session.createQueue("again"), "m" + index);
                site.see("received " + index, Site.next(consumer));
                proxy.cut();
            }
            connection.close();
        }
    }
}
