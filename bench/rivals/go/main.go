// SPDX-License-Identifier: MIT

// What a Go program makes of redigo by hand: SET NX PX and a script that deletes what is ours.
package main

import (
	"errors"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

const token = "0123456789abcdef0123"

func main() {
	address := os.Getenv("BENCH_HOST") + ":" + os.Getenv("BENCH_PORT")
	pool := &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	script := redis.NewScript(1, "if redis.call('get', KEYS[1]) == ARGV[1] then"+
		" return redis.call('del', KEYS[1]) else return 0 end")

	release := func(name string) error {
		c := pool.Get()
		defer c.Close()
		gone, err := redis.Int(script.Do(c, name, token))
		if err == nil && gone != 1 {
			err = errors.New("it was not ours")
		}
		return err
	}
	run(planOf(os.Args[len(os.Args)-6:]), func(name string) (func() error, error) {
		c := pool.Get()
		defer c.Close()
		for { // tried again every 10 ms, as is usual
			_, err := redis.String(c.Do("SET", name, token, "NX", "PX", "30000"))
			if err == nil {
				return func() error { return release(name) }, nil
			}
			if err != redis.ErrNil {
				return nil, err
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}
