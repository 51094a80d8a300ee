import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DeliverCallback;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Does with RabbitMQ's own Java client what programs do, and prints what it saw, line by line. */
public class QueueClient {
    private static final int MESSAGES = 500;
    private static final long PATIENCE_MS = 15_000;

    private final Channel channel;
    private final String work;
    private final String dead;
    private final String exchange;

    private QueueClient(Channel channel, String prefix) {
        this.channel = channel;
        this.work = prefix + ".work";
        this.dead = prefix + ".dead";
        this.exchange = prefix + ".exchange";
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(arguments[0]);
        try (Connection connection = factory.newConnection()) {
            QueueClient client = new QueueClient(connection.createChannel(), arguments[1]);
            client.declare();
            client.publishWithConfirms();
            client.consumeWithAcknowledgements();
            client.rejectToDeadLetters();
            client.publishToNowhere();
            client.requeue();
            client.commitAndRollBack();
            client.delete();
            client.useWhatIsNotThere(connection);
        }
        System.out.println("closed");
    }

    private void declare() throws IOException {
        channel.exchangeDeclare(exchange, "topic", true);
        channel.exchangeDeclare(exchange + ".dead", "fanout", true);
        channel.queueDeclare(dead, true, false, false, null);
        channel.queueBind(dead, exchange + ".dead", "");
        Map<String, Object> rules = Map.of("x-dead-letter-exchange", exchange + ".dead");
        AMQP.Queue.DeclareOk declared = channel.queueDeclare(work, true, false, false, rules);
        channel.queueBind(work, exchange, "orders.#");
        System.out.println("declared with " + declared.getMessageCount() + " messages");
    }

    private void publishWithConfirms() throws Exception {
        channel.confirmSelect();
        for (int number = 0; number < MESSAGES; number++) {
            publish(exchange, "orders.de." + number, "order " + number);
        }
        System.out.println("all confirmed: " + channel.waitForConfirms(PATIENCE_MS));
        System.out.println("waiting: " + channel.messageCount(work));
    }

    private void consumeWithAcknowledgements() throws Exception {
        BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        channel.basicQos(50);
        DeliverCallback take = (tag, delivery) -> {
            bodies.add(text(delivery.getBody()));
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        };
        String tag = channel.basicConsume(work, false, take, cancelled -> { });
        boolean inOrder = true;
        for (int number = 0; number < MESSAGES; number++) {
            String body = bodies.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
            inOrder = inOrder && ("order " + number).equals(body);
        }
        channel.basicCancel(tag);
        System.out.println("consumed in order: " + inOrder);
        System.out.println("left: " + channel.messageCount(work));
    }

    private void rejectToDeadLetters() throws Exception {
        publish(exchange, "orders.bad", "no good");
        channel.waitForConfirms(PATIENCE_MS);
        GetResponse got = get(work);
        channel.basicReject(got.getEnvelope().getDeliveryTag(), false);
        GetResponse letter = get(dead);
        channel.basicAck(letter.getEnvelope().getDeliveryTag(), false);
        Map<?, ?> death = (Map<?, ?>) ((List<?>) letter.getProps().getHeaders().get("x-death")).get(0);
        System.out.println("dead letter: " + text(letter.getBody()) + ", " + death.get("reason")
                + " " + death.get("count") + " time, key " + letter.getEnvelope().getRoutingKey());
    }

    private void publishToNowhere() throws Exception {
        BlockingQueue<String> returned = new LinkedBlockingQueue<>();
        channel.addReturnListener(back ->
                returned.add(back.getReplyCode() + " " + back.getReplyText() + ": " + text(back.getBody())));
        channel.basicPublish(
                exchange, "nobody", true, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("lost"));
        System.out.println("returned: " + returned.poll(PATIENCE_MS, TimeUnit.MILLISECONDS));
        System.out.println("confirmed all the same: " + channel.waitForConfirms(PATIENCE_MS));
    }

    private void requeue() throws Exception {
        publish(exchange, "orders.again", "again");
        channel.waitForConfirms(PATIENCE_MS);
        GetResponse first = get(work);
        channel.basicNack(first.getEnvelope().getDeliveryTag(), false, true);
        GetResponse second = get(work);
        channel.basicAck(second.getEnvelope().getDeliveryTag(), false);
        System.out.println("redelivered: " + first.getEnvelope().isRedeliver()
                + ", then " + second.getEnvelope().isRedeliver());
    }

    private void commitAndRollBack() throws Exception {
        try (Channel own = channel.getConnection().createChannel()) {
            own.txSelect();
            own.basicPublish("", work, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("rolled back"));
            own.txRollback();
            own.basicPublish("", work, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes("committed"));
            own.txCommit();
        }
        List<String> found = new ArrayList<>();
        for (GetResponse got = get(work); got != null; got = channel.basicGet(work, true)) {
            found.add(text(got.getBody()));
        }
        System.out.println("in the transaction: " + found);
    }

    private void delete() throws IOException {
        // What was got in the last step without acknowledgement is not counted: it does not wait.
        System.out.println("deleted with " + channel.queueDelete(work).getMessageCount() + " messages");
        channel.queueDelete(dead);
        channel.exchangeDelete(exchange);
        channel.exchangeDelete(exchange + ".dead");
    }

    private void useWhatIsNotThere(Connection connection) throws IOException {
        Channel own = connection.createChannel();
        try {
            own.queueDeclarePassive(work);
        } catch (IOException error) {
            AMQP.Channel.Close reason = (AMQP.Channel.Close) own.getCloseReason().getReason();
            System.out.println("refused: " + reason.getReplyCode());
        }
        System.out.println("connection is open: " + connection.isOpen());
    }

    private void publish(String to, String key, String body) throws IOException {
        channel.basicPublish(to, key, MessageProperties.PERSISTENT_TEXT_PLAIN, bytes(body));
    }

    /** A message that is there now or comes soon. */
    private GetResponse get(String queue) throws Exception {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000;
        GetResponse got = channel.basicGet(queue, false);
        while (got == null && System.nanoTime() < deadline) {
            Thread.sleep(5);
            got = channel.basicGet(queue, false);
        }
        return got;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
