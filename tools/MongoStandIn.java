import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/** Listens on loopback, prints its port, and ends when its input does. */
public class MongoStandIn {
    /** What drivers of today want to hear; they refuse to talk to older ones. */
    static class Recent implements MongoVersion {
        public List<Integer> getVersionArray() { return List.of(5, 0, 0); }
        public int getWireVersion() { return 13; }
    }

    public static void main(String[] arguments) throws Exception {
        MongoServer server = new MongoServer(new MemoryBackend().version(new Recent()));
        server.enableOplog();
        server.bind("127.0.0.1", Integer.parseInt(arguments[0]));
        System.out.println(server.getLocalAddress().getPort());
        System.out.flush();
        while (System.in.read() >= 0) { }
        server.shutdownNow();
    }
}
