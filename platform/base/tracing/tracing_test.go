package tracing

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"stampede/platform/workshop/require"
)

// recording returns a tracer that samples everything, and its recorder.
func recording(share float64) (*Tracer, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	return New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r)), share), r
}

func TestNilIsOffAndCostsNothing(t *testing.T) {
	var off *Tracer
	none, _ := recording(0)
	for name, tracer := range map[string]*Tracer{"off": off, "a share of nothing": none} {
		allocs := testing.AllocsPerRun(1000, func() {
			ctx, span := tracer.Root(t.Context(), "rush")
			_, below := tracer.Child(ctx, "reserve")
			_, after := tracer.Follow(ctx, "write", nil)
			below.Link(after)
			below.End(nil)
			span.End(errors.New("refused"))
			if span.On() || Carry(ctx) != "" || ID(ctx) != "" {
				t.Fatal("a trace was started")
			}
		})
		if allocs > 1 { // the error
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
	require.NoError(t, off.Stop(t.Context()))
}

func TestRootSamplesAShare(t *testing.T) {
	t.Parallel()
	tracer, recorded := recording(0.2)
	const tries = 10_000
	for range tries {
		_, span := tracer.Root(t.Context(), "rush")
		span.End(nil)
	}
	// Six standard deviations of a fair draw are 240.
	if n := len(recorded.Ended()); n < tries/5-240 || n > tries/5+240 {
		t.Errorf("%d of %d calls were traced at a share of 0.2", n, tries)
	}
}

// A trace continues wherever its traceparent is carried, and where many merge
// the first is the parent and the others are links.
func TestManyTracesBecomeOne(t *testing.T) {
	t.Parallel()
	tracer, recorded := recording(1)
	var carried []string
	for range 3 {
		ctx, span := tracer.Root(t.Context(), "rush")
		span.End(nil)
		carried = append(carried, Carry(ctx), "", "nonsense")
	}
	ctx, span := tracer.Follow(t.Context(), "write", carried[1:], attribute.Int("messages", 3)) // the first is not traced
	_, child := tracer.Child(ctx, "publish")
	child.End(errors.New("full"))
	span.End(nil)

	all := recorded.Ended()
	publish, write := all[3], all[4]
	if len(write.Links()) != 1 || write.Parent().TraceID() != all[1].SpanContext().TraceID() || write.Links()[0].SpanContext.TraceID() != all[2].SpanContext().TraceID() {
		t.Errorf("parent %v, links %v; want the second rush and the third", write.Parent(), write.Links())
	}
	if publish.Parent().SpanID() != write.SpanContext().SpanID() || publish.Status().Description != "full" {
		t.Errorf("child %+v of %+v", publish.Parent(), write.SpanContext())
	}
	if ID(ctx) != write.SpanContext().TraceID().String() || len(Carry(ctx)) != 55 {
		t.Errorf("id %q, carried as %q", ID(ctx), Carry(ctx))
	}
	same, none := tracer.Follow(t.Context(), "write", []string{"", "nonsense"})
	require.Equal(t, "a trace was started although none was carried", none.On() || same != t.Context(), false)
}
