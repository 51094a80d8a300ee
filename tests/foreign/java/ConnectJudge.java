// Kafka's own transforms, predicates and converters, asked line by line: a JSON request in, a JSON
// answer out. Keys and values travel in the envelope of Kafka's JsonConverter.
//
//   {"do": "transform", "class": …, "settings": {…}, "record": {…}}   → {"record": {…}} or {"dropped": true}
//   {"do": "predicate", "class": …, "settings": {…}, "record": {…}}   → {"holds": true}
//   {"do": "configure", "class": …, "settings": {…}}                  → {}
//   {"do": "names", "class": …, "settings": {…}}                      → {"names": […]}
//   {"do": "json", "settings": {…}, "data": …}                        → {"data": …}, read and written again
//   {"do": "header to text", "value": …} and {"do": "header from text", "text": …}
//
// Whatever Kafka throws is answered as {"error": its class and message}.

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public class ConnectJudge {
    private static final ObjectMapper JSON =
        new ObjectMapper()
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));
    private static final JsonConverter ENVELOPE =
        converter(Map.of("replace.null.with.default", "false"));
    private static final Map<String, Object> CONFIGURED = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Exception | StackOverflowError error) {
                answer = JSON.createObjectNode().put("error", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    @SuppressWarnings({"rawtypes", "unchecked"})
    private static ObjectNode answer(JsonNode request) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        switch (request.get("do").asText()) {
            case "configure":
                configured(request);
                return answer;
            case "names": {
                var names = answer.putArray("names");
                Object asked = configured(request);
                ConfigDef known = asked instanceof Transformation
                    ? ((Transformation) asked).config()
                    : ((Predicate) asked).config();
                known.names().stream().sorted().forEach(names::add);
                return answer;
            }
            case "transform": {
                Transformation transform = configured(request);
                ConnectRecord<?> record = (ConnectRecord<?>) transform.apply(record(request.get("record")));
                return record == null ? answer.put("dropped", true) : answer.set("record", shown(record));
            }
            case "predicate": {
                Predicate predicate = configured(request);
                return answer.put("holds", predicate.test(record(request.get("record"))));
            }
            case "json": {
                JsonConverter converter = converter(settings(request));
                SchemaAndValue read = converter.toConnectData("t", bytes(request.get("data")));
                byte[] written = converter.fromConnectData("t", read.schema(), read.value());
                return written == null
                    ? answer.putNull("data")
                    : answer.put("data", new String(written, StandardCharsets.UTF_8));
            }
            case "header to text": {
                SchemaAndValue value = value(request.get("value"));
                byte[] text = new SimpleHeaderConverter()
                    .fromConnectHeader("t", "h", value.schema(), value.value());
                return text == null
                    ? answer.putNull("text")
                    : answer.put("text", new String(text, StandardCharsets.UTF_8));
            }
            case "header from text": {
                SchemaAndValue read = new SimpleHeaderConverter()
                    .toConnectHeader("t", "h", bytes(request.get("text")));
                return answer.set("value", read == null ? null : envelope(read.schema(), read.value()));
            }
            default:
                throw new IllegalArgumentException(request.get("do").asText());
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> T configured(JsonNode request) throws Exception {
        String key = request.get("class").asText() + request.get("settings");
        Object made = CONFIGURED.get(key);
        if (made == null) {
            made = Class.forName(request.get("class").asText()).getDeclaredConstructor().newInstance();
            ((org.apache.kafka.common.Configurable) made).configure(settings(request));
            CONFIGURED.put(key, made);
        }
        return (T) made;
    }

    private static Map<String, String> settings(JsonNode request) {
        Map<String, String> settings = new HashMap<>();
        request.get("settings").fields()
            .forEachRemaining(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    private static JsonConverter converter(Map<String, String> settings) {
        JsonConverter made = new JsonConverter();
        made.configure(settings, false);
        return made;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static SchemaAndValue value(JsonNode envelope) throws Exception {
        return envelope == null || envelope.isNull()
            ? SchemaAndValue.NULL
            : ENVELOPE.toConnectData("t", JSON.writeValueAsBytes(envelope));
    }

    private static JsonNode envelope(org.apache.kafka.connect.data.Schema schema, Object value)
            throws Exception {
        byte[] written = ENVELOPE.fromConnectData("t", schema, value);
        return written == null ? JSON.nullNode() : JSON.readTree(written);
    }

    private static ConnectRecord<?> record(JsonNode given) throws Exception {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : given.get("headers")) {
            headers.add(header.get(0).asText(), value(header.get(1)));
        }
        SchemaAndValue key = value(given.get("key"));
        SchemaAndValue value = value(given.get("value"));
        Integer partition = given.get("partition").isNull() ? null : given.get("partition").asInt();
        Long timestamp = given.get("timestamp").isNull() ? null : given.get("timestamp").asLong();
        String topic = given.get("topic").asText();
        if (given.get("offset").isNull()) {
            return new SourceRecord(Map.of(), Map.of(), topic, partition, key.schema(), key.value(),
                value.schema(), value.value(), timestamp, headers);
        }
        return new SinkRecord(topic, partition, key.schema(), key.value(), value.schema(), value.value(),
            given.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
    }

    private static ObjectNode shown(ConnectRecord<?> record) throws Exception {
        ObjectNode shown = JSON.createObjectNode();
        shown.put("topic", record.topic());
        shown.put("partition", record.kafkaPartition());
        shown.put("timestamp", record.timestamp());
        shown.set("key", envelope(record.keySchema(), record.key()));
        shown.set("value", envelope(record.valueSchema(), record.value()));
        var headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(envelope(header.schema(), header.value()));
        }
        return shown;
    }
}
