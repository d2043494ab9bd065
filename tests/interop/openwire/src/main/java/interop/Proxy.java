package interop;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

/** A way to the broker that can be cut, or delivers octets in pieces: clients see what they see of a bad network. */
final class Proxy implements AutoCloseable {
    private static final int LARGEST = 65536;
    /** Pieces below this size come slowly. */
    private static final int SMALL = 1024;
    private static final long PAUSE_NS = 20_000;

    private final URI broker;
    private final int size;
    private final ServerSocket server;
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    /** While set, what the broker says does not reach the client. */
    private volatile boolean deaf;
    /** While set, nothing passes either way, and no socket closes. */
    private volatile boolean frozen;

    Proxy(String url) throws IOException {
        this(url, LARGEST);
    }

    /** A way that passes on pieces of at most `size` octets, each in a packet of its own. */
    Proxy(String url, int size) throws IOException {
        broker = URI.create(url);
        this.size = size;
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    String url() {
        return "tcp://127.0.0.1:" + server.getLocalPort();
    }

    /** Lose all answers from now until the cut. */
    void silence() {
        deaf = true;
    }

    /** Let nothing pass from now until the cut, as if a cable were pulled. */
    void freeze() {
        frozen = true;
    }

    /** Break every connection; the next one is let through. */
    void cut() {
        for (Socket socket : sockets) {
            quietly(socket);
        }
        sockets.clear();
        deaf = false;
        frozen = false;
    }

    private void accept() {
        try {
            while (true) {
                Socket client = server.accept();
                Socket peer = new Socket(broker.getHost(), broker.getPort());
                client.setTcpNoDelay(true);
                peer.setTcpNoDelay(true);
                sockets.add(client);
                sockets.add(peer);
                daemon(() -> pump(client, peer, false));
                daemon(() -> pump(peer, client, true));
            }
        } catch (IOException closed) {
            cut();
        }
    }

    private void pump(Socket from, Socket to, boolean answers) {
        byte[] buffer = new byte[size];
        try {
            InputStream input = from.getInputStream();
            OutputStream output = to.getOutputStream();
            for (int count = input.read(buffer); count >= 0; count = input.read(buffer)) {
                if (!frozen && !(answers && deaf)) {
                    output.write(buffer, 0, count);
                }
                if (size < SMALL) {
                    LockSupport.parkNanos(PAUSE_NS);
                }
            }
        } catch (IOException broken) {
            // The other direction ends too.
        }
        quietly(from);
        quietly(to);
    }

    private static void quietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException ignored) {
            // It is gone either way.
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() {
        try {
            server.close();
        } catch (IOException ignored) {
            // It is gone either way.
        }
        cut();
    }
}
