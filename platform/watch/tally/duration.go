package tally

import (
	"math"
	"strconv"
	"time"
)

// bounds are the upper bounds by which durations are counted, in milliseconds; the
// last step has the longer ones. Three steps a decade keep a percentile within its
// double.
var bounds = [...]int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000}

// Steps is the number of steps that durations are counted by.
const Steps = len(bounds) + 1

// Step is the step of a duration, from 0 to Steps - 1.
func Step(took time.Duration) int {
	step := 0
	for step < len(bounds) && took > time.Duration(bounds[step])*time.Millisecond {
		step++
	}
	return step
}

// StepCode is the code under which a step is counted: its upper bound, "20ms", or
// "longer".
func StepCode(step int) string {
	if step >= len(bounds) {
		return "longer"
	}
	return strconv.FormatInt(bounds[step], 10) + "ms"
}

// Percentile returns the upper bound of the step that contains the p-th part (0 to
// 1) of the durations counted in codes; false if there are none, and the largest
// bound for longer ones.
func Percentile(codes map[string]int64, p float64) (time.Duration, bool) {
	total := int64(0)
	for step := range Steps {
		total += codes[StepCode(step)]
	}
	rank, seen := int64(math.Ceil(p*float64(total))), int64(0)
	for step := range Steps {
		if seen += codes[StepCode(step)]; seen >= rank && seen > 0 {
			return time.Duration(bounds[min(step, len(bounds)-1)]) * time.Millisecond, true
		}
	}
	return 0, false
}
