//go:build !race

package seckill

const raceEnabled = false
