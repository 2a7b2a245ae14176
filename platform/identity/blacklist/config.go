package blacklist

import "time"

// Settings are what an operator may set about the list.
type Settings struct {
	MaxEntries int `name:"blacklist-max" default:"100000" env:"STAMPEDE_BLACKLIST_MAX" help:"Entries that the blacklist takes, kept in memory at some 300 bytes each." min:"100" max:"1000000" rare:""`
}

// keepEndedMost is the longest that an entry stays readable for operators after it
// ended; then it is deleted, and with it the phone or address that it names.
const keepEndedMost = 30 * 24 * time.Hour
