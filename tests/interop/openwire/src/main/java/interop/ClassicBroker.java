package interop;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.DestinationInterceptor;
import org.apache.activemq.broker.region.policy.FixedCountSubscriptionRecoveryPolicy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.broker.region.policy.VMPendingQueueMessageStoragePolicy;
import org.apache.activemq.broker.region.virtual.VirtualDestination;
import org.apache.activemq.broker.region.virtual.VirtualDestinationInterceptor;
import org.apache.activemq.broker.region.virtual.VirtualTopic;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;
import org.apache.activemq.filter.DestinationMapEntry;
import org.apache.activemq.security.AuthenticationUser;
import org.apache.activemq.security.AuthorizationEntry;
import org.apache.activemq.security.AuthorizationPlugin;
import org.apache.activemq.security.DefaultAuthorizationMap;
import org.apache.activemq.security.SimpleAuthenticationPlugin;
import org.apache.activemq.security.TempDestinationAuthorizationEntry;

/** ActiveMQ Classic with its defaults, and what broker.xml beside the pom says, as far as it has the same. */
public final class ClassicBroker {
    private static final long FULL_BYTES = 20_000;

    private ClassicBroker() {}

    /** Arguments: port and data folder. Runs until it is terminated. If the folder is there, full queues refuse. */
    public static void main(String[] arguments) throws Exception {
        File data = new File(arguments[1]);
        BrokerService broker = new BrokerService();
        broker.setBrokerName("classic");
        broker.setUseJmx(false);
        broker.setDataDirectoryFile(data);
        broker.setSchedulerSupport(true);
        broker.setPlugins(new BrokerPlugin[] {logins(), permissions()});
        broker.setDestinationPolicy(policies());
        broker.setDestinationInterceptors(new DestinationInterceptor[] {virtualTopics()});
        // Said of a destination it holds for all of them as well, so each life of the broker has one answer.
        broker.getSystemUsage().setSendFailIfNoSpace(data.exists());
        broker.getSystemUsage().getMemoryUsage().setLimit(128L << 20);
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.getSystemUsage().getJobSchedulerUsage().setLimit(1L << 28);
        broker.addConnector("tcp://127.0.0.1:" + arguments[0]);
        broker.start();
        broker.waitUntilStarted();
        broker.waitUntilStopped();
    }

    private static BrokerPlugin logins() {
        return new SimpleAuthenticationPlugin(List.of(
                new AuthenticationUser(Site.USER, Site.PASSWORD, "admins"),
                new AuthenticationUser(Permissions.READER, Site.PASSWORD, "readers")));
    }

    private static BrokerPlugin permissions() throws Exception {
        List<DestinationMapEntry> entries = new ArrayList<>();
        entries.add(queues(">", "admins", "admins", "admins"));
        entries.add(topics(">", "admins", "admins", "admins"));
        entries.add(queues("secure.>", "admins,readers", "admins", "admins"));
        entries.add(topics("secure.>", "admins,readers", "admins", "admins"));
        // A client that may not read these cannot connect: its first consumer is on them.
        entries.add(topics("ActiveMQ.Advisory.>", "admins,readers", "admins,readers", "admins,readers"));
        DefaultAuthorizationMap map = new DefaultAuthorizationMap(entries);
        TempDestinationAuthorizationEntry temporary = new TempDestinationAuthorizationEntry();
        temporary.setRead("admins");
        temporary.setWrite("admins");
        temporary.setAdmin("admins");
        map.setTempDestinationAuthorizationEntry(temporary);
        return new AuthorizationPlugin(map);
    }

    private static AuthorizationEntry queues(String name, String read, String write, String admin) throws Exception {
        AuthorizationEntry entry = roles(read, write, admin);
        entry.setDestination(new ActiveMQQueue(name));
        return entry;
    }

    private static AuthorizationEntry topics(String name, String read, String write, String admin) throws Exception {
        AuthorizationEntry entry = roles(read, write, admin);
        entry.setDestination(new ActiveMQTopic(name));
        return entry;
    }

    private static AuthorizationEntry roles(String read, String write, String admin) throws Exception {
        AuthorizationEntry entry = new AuthorizationEntry();
        entry.setRead(read);
        entry.setWrite(write);
        entry.setAdmin(admin);
        return entry;
    }

    /** The default rule, and one whose queues have three words before the topic's name. */
    private static DestinationInterceptor virtualTopics() {
        VirtualTopic usual = new VirtualTopic();
        usual.setName("VirtualTopic.>");
        VirtualTopic wide = new VirtualTopic();
        wide.setName("Wide.>");
        wide.setPrefix("Reader.*.*.");
        VirtualDestinationInterceptor interceptor = new VirtualDestinationInterceptor();
        interceptor.setVirtualDestinations(new VirtualDestination[] {usual, wide});
        return interceptor;
    }

    private static PolicyMap policies() {
        PolicyMap policies = new PolicyMap();
        policies.put(new ActiveMQQueue("full.fail.>"), full());
        policies.put(new ActiveMQQueue("full.block.>"), full());
        FixedCountSubscriptionRecoveryPolicy lastTwo = new FixedCountSubscriptionRecoveryPolicy();
        lastTwo.setMaximumSize(2);
        PolicyEntry retroactive = new PolicyEntry();
        retroactive.setSubscriptionRecoveryPolicy(lastTwo);
        policies.put(new ActiveMQTopic("retro.>"), retroactive);
        return policies;
    }

    /** Messages stay in memory, so that the limit is met by persistent ones as well. */
    private static PolicyEntry full() {
        PolicyEntry entry = new PolicyEntry();
        entry.setMemoryLimit(FULL_BYTES);
        entry.setPendingQueuePolicy(new VMPendingQueueMessageStoragePolicy());
        entry.setProducerFlowControl(true);
        return entry;
    }
}
