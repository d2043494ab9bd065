import java.io.File;
import org.apache.activemq.broker.BrokerService;

/** ActiveMQ Classic with its defaults: KahaDB, advisories, no permissions. Arguments: port and data folder. */
public final class ClassicBroker {
    private ClassicBroker() {}

    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("classic");
        broker.setUseJmx(false);
        broker.setDataDirectoryFile(new File(arguments[1]));
        broker.getSystemUsage().getMemoryUsage().setLimit(512L << 20);
        broker.getSystemUsage().getStoreUsage().setLimit(4L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.addConnector("tcp://127.0.0.1:" + arguments[0]);
        broker.start();
        broker.waitUntilStarted();
        broker.waitUntilStopped();
    }
}
