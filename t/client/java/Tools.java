import java.io.BufferedReader;
import java.io.InputStreamReader;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Kafka's command line tools, one after the other in one JVM: a line of stdin
 * is CLASS ARGUMENT...; what the tool prints is followed by "exit STATUS".
 */
public class Tools {

    static class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;
        final int status;

        Ended(int status) {
            super("exit " + status);
            this.status = status;
        }
    }

    static int run(String[] words) throws Exception {
        var args = new String[words.length - 1];
        System.arraycopy(words, 1, args, 0, args.length);

        try {
            Class.forName("org.apache.kafka.tools." + words[0])
                .getMethod("main", String[].class).invoke(null, (Object) args);
            return 0;
        } catch (java.lang.reflect.InvocationTargetException e) {
            if (e.getCause() instanceof Ended ended) {
                return ended.status;
            }
            e.getCause().printStackTrace(System.out);
            return 1;
        }
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            if (message != null) {
                System.out.println(message);
            }
            throw new Ended(status);
        });
        System.setErr(System.out);

        var in = new BufferedReader(new InputStreamReader(System.in));
        String line;

        while ((line = in.readLine()) != null) {
            int status = run(line.split(" "));
            System.out.println("exit " + status);
            System.out.flush();
        }
    }
}
