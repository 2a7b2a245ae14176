package fault

import (
	"testing"

	"stampede/platform/workshop/require"
)

var (
	errTaken = New(Conflict, "seat-taken", T("The seat is taken", "座位已被占用"),
		T("Choose another seat.", "请换一个座位。"), T("Choose another seat.", "请换一个座位。"))
	errOther = errTaken.Saying(T("Choose a seat of row {row}.", "请选择第 {row} 排的座位。", "row", 7))
)

func TestCodeIsDeclaredOnceWithAllItsWords(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, errOther, errTaken)
	require.Equal(t, "title and next", []Text{errOther.Title, errOther.Next}, []Text{errTaken.Title, errTaken.Next})
	if all := Codes(); all["seat-taken"] != errTaken || all["not-found"].Title != Plain(NotFound, Text{}).Title {
		t.Errorf("Codes lacks a code: %v", all)
	}
	words := T("Words", "文字")
	for name, made := range map[string]func(){
		"no title":              func() { _ = New(Conflict, "seat-lost", Text{}, words, words) },
		"no Chinese detail":     func() { _ = New(Conflict, "seat-lost", words, Text{"Words"}, words) },
		"no next action":        func() { _ = New(Conflict, "seat-lost", words, words, Text{}) },
		"declared twice":        func() { _ = New(Conflict, "seat-taken", words, words, words) },
		"a plain code":          func() { _ = New(Conflict, "not-found", words, words, words) },
		"a kind without a code": func() { _ = Plain(Conflict, Text{}) },
		"an unknown kind":       func() { _ = Plain(Unavailable+1, Text{}) },
	} {
		require.Panics(t, name, made)
	}
	_, known := Codes()["seat-lost"]
	require.Equal(t, "a code without words is listed", known, false)
}

func TestFiguresFillBothLanguages(t *testing.T) {
	t.Parallel()
	rule := T("At most {most}.", "最多 {most}。", "most", 5)
	require.Equal(t, "filled", rule, Text{"At most 5.", "最多 5。"})
	all := T("{name} breaks a rule: {rule}", "{name} 违反规则：{rule}", "name", "{rule}", "rule", rule)
	require.Equal(t, "filled", all, Text{"{rule} breaks a rule: At most 5.", "{rule} 违反规则：最多 5。"})
	require.Equal(t, "filled", errOther.Detail, Text{"Choose a seat of row 7.", "请选择第 7 排的座位。"})
}
