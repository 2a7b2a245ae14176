//go:build race

package shop

// raceEnabled is whether the tests look for data races: then the program does, too.
const raceEnabled = true
