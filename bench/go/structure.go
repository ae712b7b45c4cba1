// What Go needs to spawn, wait and cancel, for the figures beside ours: one line each, "name value
// unit - -". On one processor (GOMAXPROCS(1)), because ours run on one worker: no figure gains or
// loses by a second core.
package main

import (
	"context"
	"fmt"
	"runtime"
	"sort"
	"sync"
	"time"
)

const (
	runs      = 9
	rounds    = 1000000
	batch     = 64
	cancelled = 10000
	branches  = 100
	weighed   = 100000
)

func each(start time.Time, count int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(count)
}

func line(name string, unit string, figure func() float64) {
	values := make([]float64, runs)
	for i := range values {
		runtime.GC() // frees what the run before has left
		values[i] = figure()
	}
	sort.Float64s(values)
	fmt.Printf("%-36s %10.1f %-8s       - -\n", "go_"+name, values[runs/2], unit)
}

// Returns when all that were started wait.
func settle() {
	time.Sleep(20 * time.Millisecond)
}

func spawnAwait() float64 {
	start := time.Now()
	for i := 0; i < rounds; i++ {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	return each(start, rounds)
}

func spawnAwaitWaitGroup() float64 {
	var group sync.WaitGroup
	start := time.Now()
	for i := 0; i < rounds; i++ {
		group.Add(1)
		go group.Done()
		group.Wait()
	}
	return each(start, rounds)
}

func spawnFinish() float64 {
	var group sync.WaitGroup
	group.Add(rounds)
	start := time.Now()
	for i := 0; i < rounds; i++ {
		go group.Done()
		if i%batch == 0 {
			runtime.Gosched()
		}
	}
	group.Wait()
	return each(start, rounds)
}

func pingPong() float64 {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		for range there {
			back <- struct{}{}
		}
	}()
	start := time.Now()
	for i := 0; i < rounds; i++ {
		there <- struct{}{}
		<-back
	}
	ns := each(start, rounds)
	close(there)
	return ns
}

func channelItem(capacity int) func() float64 {
	return func() float64 {
		items := make(chan *int, capacity)
		start := time.Now()
		go func() {
			for i := 0; i < rounds; i++ {
				items <- &i
			}
			close(items)
		}()
		for range items {
		}
		return each(start, rounds)
	}
}

func semaphoreUncontended() float64 {
	permits := make(chan struct{}, 1)
	start := time.Now()
	for i := 0; i < rounds; i++ {
		permits <- struct{}{}
		<-permits
	}
	return each(start, rounds)
}

// The owner of the permit lets the other goroutine wait before it releases the permit.
func semaphoreContended() float64 {
	permits := make(chan struct{}, 1)
	var group sync.WaitGroup
	group.Add(2)
	start := time.Now()
	for side := 0; side < 2; side++ {
		go func() {
			for i := 0; i < rounds/2; i++ {
				permits <- struct{}{}
				runtime.Gosched()
				<-permits
			}
			group.Done()
		}()
	}
	group.Wait()
	return each(start, rounds)
}

func mutexUncontended() float64 {
	var mutex sync.Mutex
	start := time.Now()
	for i := 0; i < rounds; i++ {
		mutex.Lock()
		mutex.Unlock()
	}
	return each(start, rounds)
}

// Each has a context of its own below a common one, and is awaited before the next is cancelled.
func cancelOne() float64 {
	parent, end := context.WithCancel(context.Background())
	defer end()
	cancels := make([]context.CancelFunc, cancelled)
	done := make([]chan struct{}, cancelled)
	for i := range cancels {
		var child context.Context
		child, cancels[i] = context.WithCancel(parent)
		ended := make(chan struct{})
		done[i] = ended
		go func() {
			<-child.Done()
			close(ended)
		}()
	}
	settle()
	start := time.Now()
	for i := range cancels {
		at := i * 7919 % cancelled
		cancels[at]()
		<-done[at]
	}
	return each(start, cancelled)
}

// The same tree as ours: each goroutine has a context below its parent's, and waits for it and for
// its children.
func cancelTree() float64 {
	top, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	leaf := func(parent context.Context, group *sync.WaitGroup) {
		own, end := context.WithCancel(parent)
		<-own.Done()
		end()
		group.Done()
	}
	branch := func() {
		own, end := context.WithCancel(top)
		var leaves sync.WaitGroup
		for i := 1; i < cancelled/branches; i++ {
			leaves.Add(1)
			go leaf(own, &leaves)
		}
		<-own.Done()
		leaves.Wait()
		end()
		all.Done()
	}
	for i := 0; i < branches; i++ {
		all.Add(1)
		go branch()
	}
	settle()
	start := time.Now()
	cancel()
	all.Wait()
	return each(start, cancelled)
}

// From the operating system, while many goroutines wait for one channel.
func goroutineBytes() float64 {
	var before, after runtime.MemStats
	stop := make(chan struct{})
	var group sync.WaitGroup
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := 0; i < weighed; i++ {
		group.Add(1)
		go func() {
			<-stop
			group.Done()
		}()
	}
	runtime.Gosched()
	runtime.ReadMemStats(&after)
	close(stop)
	group.Wait()
	inUse := func(stats *runtime.MemStats) uint64 { return stats.StackInuse + stats.HeapInuse + stats.OtherSys }
	return float64(inUse(&after)-inUse(&before)) / weighed
}

func main() {
	runtime.GOMAXPROCS(1)
	// Runs first, and once: Go keeps goroutines that have ended, and reuses them.
	fmt.Printf("%-36s %10.1f %-8s       - -\n", "go_goroutine_bytes", goroutineBytes(), "bytes")
	line("spawn_finish", "ns", spawnFinish)
	line("spawn_await", "ns", spawnAwait)
	line("spawn_await_waitgroup", "ns", spawnAwaitWaitGroup)
	line("channel_ping_pong", "ns", pingPong)
	line("channel_item_unbuffered", "ns", channelItem(0))
	line("channel_item_buffered_1", "ns", channelItem(1))
	line("channel_item_buffered_64", "ns", channelItem(batch))
	line("semaphore_uncontended", "ns", semaphoreUncontended)
	line("semaphore_contended", "ns", semaphoreContended)
	line("mutex_uncontended", "ns", mutexUncontended)
	line("cancel_one_of_10000", "ns", cancelOne)
	line("cancel_tree_of_10000", "ns", cancelTree)
}
