package execute

import (
	"context"
	"sync"
)

// inbox hands parcels from those that receive them to the one goroutine that leases:
// it always takes all that are there. It is bounded by the slots that they hold.
type inbox struct {
	mu      sync.Mutex
	parcels []parcel
	arrived chan struct{} // holds one token while parcels may be there
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

func (i *inbox) put(p parcel) {
	i.mu.Lock()
	i.parcels = append(i.parcels, p)
	i.mu.Unlock()
	select {
	case i.arrived <- struct{}{}:
	default:
	}
}

// take waits for at least one parcel and takes all; it returns ctx's error when ctx
// ends first.
func (i *inbox) take(ctx context.Context) ([]parcel, error) {
	for {
		select {
		case <-i.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		i.mu.Lock()
		all := i.parcels
		i.parcels = nil
		i.mu.Unlock()
		if len(all) > 0 {
			return all, nil
		}
	}
}
