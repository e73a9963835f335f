extern int run_application(int count, char **arguments);

int main(int count, char **arguments) {
  int status = run_application(count, arguments);
  return status + 1;
}
