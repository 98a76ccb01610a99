package httpchan_test

import (
	"net/http"
	"testing"
	"time"

	"duly.dev/duly/pkg/job"
)

// BenchmarkDeliver is one effect to a local receiver, as many at once as a worker
// has slots for.
func BenchmarkDeliver(b *testing.B) {
	s := serve(b, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	c := newChannel(b, local(), time.Hour)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var n begun
		e := effect(s.URL, &n)
		for pb.Next() {
			if r := c.Deliver(b.Context(), e); r.Outcome != job.OutcomeDelivered {
				b.Error(r.Detail)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "effects/s")
}
