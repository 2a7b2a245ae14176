package blacklist

import "time"

// Settings are the operator's settings for the list.
type Settings struct {
	MaxEntries int `name:"blacklist-max" default:"100000" env:"STAMPEDE_BLACKLIST_MAX" help:"Maximum number of blacklist entries, kept in memory at some 300 bytes each." min:"100" max:"1000000" rare:""`
}

// keepEndedMost is the longest that operators can read an ended entry; then it is
// deleted, together with its phone or address.
const keepEndedMost = 30 * 24 * time.Hour
