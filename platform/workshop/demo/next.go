package demo

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"busy": {"Wait until it has finished.", "请等待其完成后再试。"},
	})
}
