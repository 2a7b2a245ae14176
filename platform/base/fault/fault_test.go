package fault

import (
	"errors"
	"testing"
)

var (
	errTaken = New(Conflict, "seat-taken", T("The seat is taken", "座位已被占用"),
		T("Choose another seat.", "请换一个座位。"), T("Choose another seat.", "请换一个座位。"))
	errOther = errTaken.Saying(T("Choose a seat of row {row}.", "请选择第 {row} 排的座位。", "row", 7))
)

func TestCodeIsDeclaredOnceWithAllItsWords(t *testing.T) {
	t.Parallel()
	if errOther.Title != errTaken.Title || errOther.Next != errTaken.Next || !errors.Is(errOther, errTaken) {
		t.Errorf("Saying made %+v of %+v", errOther, errTaken)
	}
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
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			made()
		}()
	}
	if _, known := Codes()["seat-lost"]; known {
		t.Error("a code without words was listed")
	}
}

func TestFiguresFillBothLanguages(t *testing.T) {
	t.Parallel()
	rule := T("At most {most}.", "最多 {most}。", "most", 5)
	if rule != (Text{"At most 5.", "最多 5。"}) {
		t.Errorf("filled to %q", rule)
	}
	if all := T("{name} breaks a rule: {rule}", "{name} 违反规则：{rule}", "name", "{rule}", "rule", rule); all != (Text{"{rule} breaks a rule: At most 5.", "{rule} 违反规则：最多 5。"}) {
		t.Errorf("filled to %q", all)
	}
	if errOther.Detail != (Text{"Choose a seat of row 7.", "请选择第 7 排的座位。"}) {
		t.Errorf("filled to %q", errOther.Detail)
	}
}
