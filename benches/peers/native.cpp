// Times llama.cpp on one thread: `native MODEL.gguf STEPS PROMPT...` evaluates a prompt of so many tokens, then STEPS
// tokens one by one, each the likeliest. Prints one JSON object:
//   {"cpu": string, "load_ms": number, "times_ms": [[number, ...], ...]}
// For each prompt the milliseconds from its beginning to each token. What is not set here is llama.cpp's default.
#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Evaluates the tokens after those already in the cache and takes the likeliest next one.
llama_token greedy(llama_context* context, std::vector<llama_token> tokens, int vocabulary) {
  if (llama_decode(context, llama_batch_get_one(tokens.data(), tokens.size())) != 0)
    throw std::runtime_error("llama.cpp could not evaluate " + std::to_string(tokens.size()) + " tokens");
  const float* logits = llama_get_logits_ith(context, -1);
  return std::max_element(logits, logits + vocabulary) - logits;
}

void measure(const char* path, int steps, const std::vector<int>& prompts) {
  const auto start = Clock::now();
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(path, model_params);
  if (!model) throw std::runtime_error(std::string("llama.cpp could not load ") + path);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = llama_model_n_ctx_train(model);
  params.n_threads = params.n_threads_batch = 1;
  llama_context* context = llama_init_from_model(model, params);
  if (!context) throw std::runtime_error("llama.cpp could not make a context");
  std::printf("{\"cpu\":\"%s\",\"load_ms\":%.3f,\"times_ms\":[", llama_print_system_info(), milliseconds_since(start));

  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const char* separator = "";
  for (int length : prompts) {
    std::vector<llama_token> prompt(length);
    for (int i = 0; i < length; i++) prompt[i] = i * 7919 % vocabulary;
    llama_memory_clear(llama_get_memory(context), true);
    const auto start = Clock::now();
    llama_token token = greedy(context, prompt, vocabulary);
    std::printf("%s[%.3f", separator, milliseconds_since(start));
    for (int i = 0; i < steps; i++) {
      token = greedy(context, {token}, vocabulary);
      std::printf(",%.3f", milliseconds_since(start));
    }
    std::printf("]");
    separator = ",";
  }
  std::puts("]}");
  llama_free(context);
  llama_model_free(model);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fputs("usage: native MODEL.gguf STEPS PROMPT...\n", stderr);
    return 2;
  }
  llama_log_set([](ggml_log_level level, const char* text, void*) {
    if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
  }, nullptr);
  llama_backend_init();
  try {
    std::vector<int> prompts;
    for (int i = 3; i < count; i++) prompts.push_back(std::atoi(arguments[i]));
    measure(arguments[1], std::atoi(arguments[2]), prompts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  llama_backend_free();
}
