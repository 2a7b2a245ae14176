package seckill

import "stampede/platform/base/fault"

// What callers do instead, by code.
func init() {
	fault.Instead(map[string]fault.Titles{
		"forbidden-transition": {"Read it again: its status says what is possible now.", "请刷新查看当前状态，再选择可执行的操作。"},
		"not-editable":         {"While the sale runs, pause it, add stock or extend it; otherwise plan another session.", "进行中的活动可暂停、补货或延长；其他修改请新建场次。"},
		"frozen":               {"Pause the activity if it must not open, or change it after the opening.", "如不应开抢请暂停活动，或在开抢后再修改。"},
		"units-not-free":       {"Ask for no more than are free, or send or_fewer to take what there is.", "请减少数量，或按当前可用件数重新填写。"},
	})
}
