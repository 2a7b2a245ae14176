package cli

import (
	"strings"
	"testing"
)

func TestStoreURLs(t *testing.T) {
	t.Parallel()
	good := Stores{DatabaseURL: "postgres://u:p@h/d", RedisURL: "redis://h:6379/0", NATSURL: "nats://h:4222"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]Stores{
		"--database-url": {DatabaseURL: "mysql://h/d", RedisURL: good.RedisURL},
		"--redis-url":    {DatabaseURL: good.DatabaseURL, RedisURL: "h:6379"},
		"--nats-url":     {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, NATSURL: "http://h"},
		"redis://:pass":  {DatabaseURL: good.DatabaseURL, RedisURL: "redis://:planted-secret@h:port/0"}, // an example of the right form
		"must be like p": {DatabaseURL: "postgres://u:planted-secret@h:port/d", RedisURL: good.RedisURL},
		"odd number":     {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, LockRedisURLs: []string{"redis://a:1", "redis://b:1"}},
		"independent":    {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, LockRedisURLs: []string{"redis://a:1", "redis://b:1", "redis://a:1"}},
		"urls, number 1": {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, LockRedisURLs: []string{"redis://:planted-secret@h:port"}},
		"must be like n": {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, NATSURL: "nats://planted-secret@h:port"},
	} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%+v: %v, want it to name %s", bad, err, name)
		}
	}
	err := Stores{RedisURL: "h:6379", NATSURL: "http://h"}.Check()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three wrong URLs: %v", err)
	}
}
