package runs

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"proof-running": {"Wait for the running proof and read its result.", "请等待正在进行的账目核验完成后查看结果。"},
	})
}
