.DEFAULT_GOAL := help
.PHONY: help build test race lint ci demo bench compare model soak mutants fuzz chaos loss generate

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the five programs, static, into bin/
	scripts/build bin

test: ## Run the tests; they bring their own PostgreSQL and NATS
	go test ./...

race: ## Run the tests under the race detector (needs a C compiler)
	go test -race ./...

lint: ## Run golangci-lint as CI does
	scripts/tool golangci-lint run ./...

ci: ## Run everything that CI runs
	.ci/run

demo: ## Send a file of reminders to receivers that misbehave, and compare what both sides saw
	go run ./cmd/duly demo

bench: ## Measure enqueue to delivered on the embedded stack
	go run ./cmd/duly bench

compare: ## Measure Duly side by side with other job queues (needs Node for some of them)
	go -C bench run . compare

model: ## Check the formal model in every configuration (brings Spin itself where it may)
	docs/model/check

SCHEDULES ?= 100000
FROM ?= 1000000

soak: ## Play SCHEDULES (100000) simulated schedules, from seed FROM on, and print how often each fault happened
	go test ./test/sim -run TestSchedules -timeout 0 -sim.schedules $(SCHEDULES) -sim.from $(FROM) -sim.report $(CURDIR)/docs/reports/simulation.md
	@cat docs/reports/simulation.md

mutants: ## Weaken Duly in one place after the other, see that a test notices, and write docs/reports/mutants.md
	go run ./test/mutants -report docs/reports/mutants.md

fuzz: ## Fuzz every decoder for 30 s
	scripts/fuzz

chaos: ## Break everything around real processes, and write docs/reports/chaos.md; CHAOS="--runs 50 --seed 7" for more
	go run ./test/chaos -report docs/reports/chaos.md $(CHAOS)

loss: ## Have whole programs outlive what a real Kafka can lose, each time one of its own (about 10 minutes)
	DULY_TEST_KAFKA=own go test -count=1 -parallel 2 -timeout 40m -run Kafka -skip '.*/(NATS|.*in_memory)$$' ./test/e2e

generate: ## Bring generated files up to date
	go generate ./...
