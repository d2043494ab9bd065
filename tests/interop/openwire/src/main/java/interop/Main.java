package interop;

import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/**
 * Runs scenarios against one broker and prints what each saw, a line of JSON per scenario.
 *
 * <p>Arguments: the broker's URL, a regular expression for the names to run, and `before` or `after` a restart. A
 * scenario is a public method of one of the classes below that takes a {@link Site}; its name is `class.method`.
 * Methods whose names end in `After` run after the restart; with one in `Before` such a method makes one scenario.
 */
public final class Main {
    private static final Class<?>[] CLASSES = {
        Scheduled.class, Acknowledgement.class, Advisories.class, Bodies.class, Browsers.class, Connections.class,
        Destinations.class, Distributed.class, Durable.class, Failover.class, Flow.class, Full.class,
        Permissions.class, Redelivery.class, Restart.class, Selection.class, Sharing.class, Temporary.class,
        Transactions.class, Uncommon.class, VirtualTopics.class, Wire.class,
    };
    /** Scenarios wait far more than they work. */
    private static final int THREADS = 16;
    private static final long SCENARIO_TIMEOUT_S = 100;

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        Pattern wanted = Pattern.compile(arguments[1]);
        boolean after = arguments[2].equals("after");
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ExecutorService pool = Executors.newFixedThreadPool(THREADS, Main::daemon);
        List<Site> sites = new ArrayList<>();
        List<Future<?>> runs = new ArrayList<>();
        for (Class<?> type : CLASSES) {
            for (Method method : scenarios(type, after)) {
                String name = type.getSimpleName() + "." + method.getName();
                if (wanted.matcher(name).matches()) {
                    Site site = new Site(name, url);
                    sites.add(site);
                    runs.add(pool.submit(() -> run(method, site)));
                }
            }
        }
        for (int index = 0; index < runs.size(); index++) {
            await(runs.get(index), sites.get(index));
            out.println(sites.get(index).report());
        }
        // Connections that never closed would keep the process.
        System.exit(0);
    }

    private static List<Method> scenarios(Class<?> type, boolean after) {
        List<Method> methods = new ArrayList<>();
        for (Method method : type.getDeclaredMethods()) {
            boolean scenario = Modifier.isPublic(method.getModifiers()) && method.getParameterCount() == 1;
            if (scenario && method.getName().endsWith("After") == after) {
                methods.add(method);
            }
        }
        methods.sort(Comparator.comparing(Method::getName));
        return methods;
    }

    private static void run(Method method, Site site) {
        try (site) {
            method.invoke(method.getDeclaringClass().getDeclaredConstructor().newInstance(), site);
        } catch (InvocationTargetException thrown) {
            site.fail(thrown.getCause());
        } catch (ReflectiveOperationException wrong) {
            site.fail(wrong);
        }
    }

    private static void await(Future<?> run, Site site) throws InterruptedException {
        try {
            run.get(SCENARIO_TIMEOUT_S, TimeUnit.SECONDS);
        } catch (TimeoutException | ExecutionException ended) {
            site.fail(ended);
        }
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }
}
