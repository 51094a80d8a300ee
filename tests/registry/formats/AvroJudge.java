import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Says what Avro's own library thinks.
 *
 * <p>Reads one question a line, {"schema": text} or {"reader": text, "writer": text}, and writes one
 * answer a line.
 */
public class AvroJudge {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    BufferedReader questions =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = questions.readLine(); line != null; line = questions.readLine()) {
      JsonNode question = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      if (question.has("schema")) {
        describe(question.get("schema").asText(), answer);
      } else {
        compare(question.get("reader").asText(), question.get("writer").asText(), answer);
      }
      answers.println(JSON.writeValueAsString(answer));
    }
  }

  private static Schema parsed(String text) {
    Schema.Parser parser = new Schema.Parser(NameValidator.STRICT_VALIDATOR);
    parser.setValidateDefaults(true);
    return parser.parse(text);
  }

  private static void describe(String text, ObjectNode answer) throws Exception {
    Schema schema;
    try {
      schema = parsed(text);
    } catch (RuntimeException error) {
      answer.put("invalid", String.valueOf(error.getMessage()));
      return;
    }
    answer.put("text", schema.toString());
  }

  private static void compare(String reader, String writer, ObjectNode answer) {
    SchemaCompatibility.SchemaCompatibilityResult result;
    try {
      result =
          SchemaCompatibility.checkReaderWriterCompatibility(parsed(reader), parsed(writer))
              .getResult();
    } catch (RuntimeException error) {
      answer.put("readable", false);
      answer.put("failed", String.valueOf(error.getMessage()));
      return;
    }
    answer.put(
        "readable",
        result.getCompatibility() == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE);
    ArrayNode reasons = answer.putArray("reasons");
    for (SchemaCompatibility.Incompatibility reason : result.getIncompatibilities()) {
      reasons.add(reason.getType() + " at " + reason.getLocation());
    }
  }
}
