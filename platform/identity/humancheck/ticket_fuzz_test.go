package humancheck

import (
	"strings"
	"testing"
)

// FuzzSolution searches for texts that are wrongly accepted as a solution, for
// second spellings, and for crashes of the parser.
func FuzzSolution(f *testing.F) {
	ring := newKeys([][]byte{testKey})
	sub := rush(7, 42)
	good := ring.sign(ticket{form: formPow, difficulty: MinDifficulty, issued: 1_800_000_000_000, lifetime: 120, id: [16]byte{1, 2, 3}}, sub)
	f.Add("pow:" + good + ".0")
	f.Add("pow:" + good + ".9007199254740991")
	f.Add("pow:" + good + ".9007199254740992")
	f.Add("slide:" + good + ".120")
	f.Add("slide:" + good + ".-1")
	f.Add("slide:" + good + ".120.0,12;40,60;90,120")
	f.Add("verifier:0.abc-DEF_ghi")
	f.Add("pow:" + strings.Repeat("A", ticketTextBytes) + ".1")
	f.Add("pow:" + good[:40] + "\n\n" + good[42:] + ".1")
	f.Add(":")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		sol, err := parse(text, false)
		if err != nil {
			return
		}
		if text != string(sol.kind)+":"+sol.whole || len(text) > MaxSolutionBytes {
			t.Fatalf("%q parses as %+v", text, sol)
		}
		if sol.kind == Verifier {
			return
		}
		if sol.number > maxNumber {
			t.Fatalf("%q has the number %d", text, sol.number)
		}
		if _, err := ring.open(sol.ticket, sub); err == nil && sol.ticket != good {
			t.Fatalf("%q opens but was never signed", sol.ticket)
		}
	})
}

func TestTicketsSurviveTheirText(t *testing.T) {
	t.Parallel()
	ring := newKeys([][]byte{testKey})
	for _, sub := range []Subject{rush(1, 1), rush(1<<63-1, 1<<63-1), guest(PurposeRegister, "2001:db8::1"), {Purpose: PurposeSMS}} {
		in := ticket{form: formSlide, difficulty: 26, issued: 1<<48 - 1, lifetime: 1<<16 - 1, id: [16]byte{15: 255}}
		out, err := ring.open(ring.sign(in, sub), sub)
		if err != nil {
			t.Errorf("%+v: %v", sub, err)
			continue
		}
		in.user, in.item, in.purpose, in.origin = sub.User, sub.Item, purposes[sub.Purpose], ring[0].origin(sub)
		if out != in {
			t.Errorf("%+v became %+v", in, out)
		}
	}
}
