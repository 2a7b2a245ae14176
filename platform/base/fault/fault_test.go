package fault

import (
	"errors"
	"testing"
)

var (
	errTaken = New(Conflict, "seat-taken", Titles{"The seat is taken", "座位已被占用"}, "Choose another seat.")
	errOther = errTaken.Saying("Choose a seat of another row.")
)

func TestCodeHasOnePairOfTitles(t *testing.T) {
	t.Parallel()
	if errOther.Titles != errTaken.Titles || !errors.Is(errOther, errTaken) || errOther.Detail == errTaken.Detail {
		t.Errorf("Saying made %+v of %+v", errOther, errTaken)
	}
	if all := Codes(); all["seat-taken"] != errTaken.Titles || all["not-found"] != Plain(NotFound, "").Titles {
		t.Errorf("Codes lacks a code: %v", all)
	}
	_ = New(Gone, "seat-taken", errTaken.Titles, "Choose a seat that is still there.") // another kind and sentence is allowed
	for name, made := range map[string]func(){
		"no title":              func() { _ = New(Conflict, "seat-lost", Titles{}, "") },
		"no Chinese title":      func() { _ = New(Conflict, "seat-lost", Titles{"The seat is lost"}, "") },
		"other titles":          func() { _ = New(Conflict, "seat-taken", Titles{"Too late", "座位已被占用"}, "") },
		"a plain code's titles": func() { _ = New(Conflict, "not-found", Titles{"No seat", "没有座位"}, "") },
		"a kind without a code": func() { _ = Plain(Conflict, "") },
		"an unknown kind":       func() { _ = Plain(Unavailable+1, "") },
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
		t.Error("a code without titles was listed")
	}
}
