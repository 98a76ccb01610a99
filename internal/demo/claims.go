package demo

import (
	"context"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// readClaims reads what the ledger says about every job, as an operator's tool would:
// by its lists, and each job by itself.
func readClaims(ctx context.Context, l *ledger.Ledger) ([]claim, error) {
	var claims []claim
	for _, state := range job.States() {
		request := machine.ListRequest{State: state, Limit: 500}
		for {
			page, err := l.List(ctx, request)
			if err != nil {
				return nil, err
			}
			for _, e := range page.Entries {
				one, err := readClaim(ctx, l, e)
				if err != nil {
					return nil, err
				}
				claims = append(claims, one)
			}
			if page.Next == (machine.ListPlace{}) {
				break
			}
			request.After = page.Next
		}
	}
	return claims, nil
}

func readClaim(ctx context.Context, l *ledger.Ledger, e machine.Entry) (claim, error) {
	story, err := l.Find(ctx, e.Kind, e.Key)
	if err != nil {
		return claim{}, err
	}
	current, _ := story.Current()
	return claim{
		Kind: e.Kind, Key: e.Key, Channel: story.Kind.Channel, Generation: e.Generation,
		State: e.State, Reason: e.Reason, Destination: current.Destination,
	}, nil
}
