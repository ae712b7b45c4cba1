// Go's timers with many outstanding, for the figures beside ours: one line each, "name value unit -
// -". The time to fire them cannot be measured from outside: the runtime fires them by itself while
// others are started.
package main

import (
	"fmt"
	"math/rand"
	"sort"
	"time"
)

const runs = 3

func each(start time.Time, count int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(count)
}

func run(count int) (insert, startStop, rearm, cancel float64) {
	random := rand.New(rand.NewSource(1))
	delays := make([]time.Duration, count)
	for i := range delays {
		delays[i] = time.Duration(60000+random.Intn(60000)) * time.Millisecond
	}
	shuffled := random.Perm(count)
	timers := make([]*time.Timer, count)
	nothing := func() {}

	start := time.Now()
	for i := range timers {
		timers[i] = time.AfterFunc(delays[i], nothing)
	}
	insert = each(start, count)

	one := time.AfterFunc(time.Hour, nothing)
	start = time.Now()
	for i := range timers {
		one.Reset(delays[i])
		one.Stop()
	}
	startStop = each(start, count)

	start = time.Now()
	for i, at := range shuffled {
		timers[at].Reset(delays[i])
	}
	rearm = each(start, count)

	start = time.Now()
	for _, at := range shuffled {
		timers[at].Stop()
	}
	cancel = each(start, count)

	return
}

func median(values []float64) float64 {
	sort.Float64s(values)
	return values[len(values)/2]
}

func main() {
	names := []string{"insert", "start_stop", "rearm_random", "cancel_random"}
	for _, count := range []int{1000, 100000, 1000000} {
		all := make([][]float64, len(names))
		for i := 0; i < runs; i++ {
			a, b, c, d := run(count)
			for op, value := range []float64{a, b, c, d} {
				all[op] = append(all[op], value)
			}
		}
		for op, name := range names {
			fmt.Printf("%-36s %10.1f %-8s       - -\n", fmt.Sprintf("go_timer_%s_%d", name, count), median(all[op]), "ns")
		}
	}
}
