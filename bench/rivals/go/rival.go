// SPDX-License-Identifier: MIT

package main

// The loops of bench/loops.c for locks of Go: see ../README.md for arguments and result.

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type plan struct {
	workers     int
	oneName     bool
	held, pause time.Duration
	span        time.Duration
	handoff     bool
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

func planOf(words []string) plan {
	return plan{
		workers: number(words[0]), oneName: words[1] == "one",
		held:  time.Duration(number(words[2])) * time.Microsecond,
		pause: time.Duration(number(words[3])) * time.Microsecond,
		span:  time.Duration(number(words[4])) * time.Millisecond, handoff: words[5] == "handoff"}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type locker func(name string) (func() error, error)

type workers struct {
	plan
	lock     locker
	began    time.Time
	last     int64
	released int64
	times    [][]int64
}

func (c *workers) goesOn() bool { return time.Since(c.began) < c.span }

func (c *workers) pairs(index int, unlock func() error, asked time.Duration) {
	held := time.Duration(0)
	if c.held > 0 {
		before := time.Now()
		time.Sleep(c.held)
		held = time.Since(before)
	}
	must(unlock())
	c.times[index] = append(c.times[index], int64(time.Since(c.began)-asked-held))
	if c.pause > 0 {
		time.Sleep(c.pause)
	}
}

func (c *workers) pass(index int, unlock func() error) {
	at := int64(time.Since(c.began))
	if last := atomic.LoadInt64(&c.last); last >= 0 && last != int64(index) {
		c.times[index] = append(c.times[index], at-atomic.LoadInt64(&c.released))
	}
	atomic.StoreInt64(&c.last, int64(index))
	time.Sleep(c.held)
	atomic.StoreInt64(&c.released, int64(time.Since(c.began)))
	must(unlock())
	for c.goesOn() && atomic.LoadInt64(&c.last) == int64(index) {
		time.Sleep(50 * time.Microsecond)
	}
}

func (c *workers) work(index int) {
	name := "rival-0"
	if !c.oneName {
		name = fmt.Sprintf("rival-%d", index)
	}
	for c.goesOn() {
		asked := time.Since(c.began)
		unlock, err := c.lock(name)
		if err != nil {
			continue
		}
		if c.handoff {
			c.pass(index, unlock)
		} else {
			c.pairs(index, unlock, asked)
		}
	}
}

func (c *workers) result() {
	var all []int64
	least, most, squares := len(c.times[0]), 0, 0
	for _, times := range c.times {
		all = append(all, times...)
		n := len(times)
		squares += n * n
		if n < least {
			least = n
		}
		if n > most {
			most = n
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	quantile := func(share float64) float64 {
		at := int(share * float64(len(all)))
		if at >= len(all) {
			at = len(all) - 1
		}
		return float64(all[at]) / 1e3
	}
	if len(all) == 0 {
		must(fmt.Errorf("nothing was locked"))
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"pairs": float64(len(all)), "pairs_per_s": float64(len(all)) / time.Since(c.began).Seconds(),
		"least_over_most": float64(least) / float64(most),
		"jain":            float64(len(all)) * float64(len(all)) / float64(len(c.times)*squares),
		"p50_us":          quantile(.5), "p90_us": quantile(.9), "p99_us": quantile(.99), "p99_9_us": quantile(.999),
		"worst_ms": float64(all[len(all)-1]) / 1e6}))
}

func run(p plan, lock locker) {
	c := workers{plan: p, lock: lock, last: -1, times: make([][]int64, p.workers)}
	unlock, err := lock("rival-first")
	must(err)
	must(unlock())
	var all sync.WaitGroup
	c.began = time.Now()
	for i := 0; i < p.workers; i++ {
		all.Add(1)
		go func(index int) {
			defer all.Done()
			c.work(index)
		}(i)
	}
	all.Wait()
	c.result()
}
