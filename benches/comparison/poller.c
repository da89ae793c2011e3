/* The floor of the comparison: what a program costs that does only this. It reads 100 holding registers of each of some
 * devices once a second with libmodbus, and publishes each as one short JSON message at QoS 0 with libmosquitto.
 *
 *     poller BROKER_PORT FIRST_MODBUS_PORT DEVICES SECONDS
 *
 * Prints its readings and the CPU time that they took, in microseconds. */
#include <errno.h>
#include <modbus.h>
#include <mosquitto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { REGISTERS = 100, MOST_DEVICES = 64 };

static long cpu_us(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static int fail(const char *what) {
    fprintf(stderr, "poller: %s: %s\n", what, modbus_strerror(errno));
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 5) return fail("usage: poller BROKER_PORT FIRST_MODBUS_PORT DEVICES SECONDS");
    int first_port = atoi(argv[2]), devices = atoi(argv[3]), seconds = atoi(argv[4]);
    if (devices > MOST_DEVICES) return fail("too many devices");
    mosquitto_lib_init();
    struct mosquitto *broker = mosquitto_new("poller", true, NULL);
    if (mosquitto_connect(broker, "127.0.0.1", atoi(argv[1]), 60) != MOSQ_ERR_SUCCESS) return fail("no broker");
    modbus_t *lines[MOST_DEVICES];
    for (int device = 0; device < devices; device++) {
        lines[device] = modbus_new_tcp("127.0.0.1", first_port + device);
        modbus_set_slave(lines[device], 1);
        if (modbus_connect(lines[device]) != 0) return fail("no device");
    }
    long readings = 0, before = cpu_us();
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int second = 0; second < seconds; second++) {
        for (int device = 0; device < devices; device++) {
            uint16_t words[REGISTERS];
            if (modbus_read_registers(lines[device], 0, REGISTERS, words) != REGISTERS) return fail("no answer");
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            for (int word = 0; word < REGISTERS; word++) {
                char topic[48], json[64];
                snprintf(topic, sizeof topic, "floor/d%d/s%d", device, word);
                int length = snprintf(json, sizeof json, "{\"v\":%u,\"t\":%ld.%03ld}", words[word], (long)now.tv_sec,
                                      now.tv_nsec / 1000000L);
                mosquitto_publish(broker, NULL, topic, length, json, 0, false);
                readings++;
            }
            mosquitto_loop(broker, 0, 1);
        }
        next.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    printf("%ld %ld\n", readings, cpu_us() - before);
    return 0;
}
